package main

import (
	"math"
	"slices"
)

// A summary describes a set of measurements.
type summary struct {
	N   int     `json:"n"`
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

func summarize(values []float64) summary {
	if len(values) == 0 {
		return summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return summary{N: len(sorted), Min: sorted[0], P50: median(sorted), P99: quantile(sorted, 0.99)}
}

// quantile is by nearest rank: a value that was measured, never one between
// two.
func quantile(sorted []float64, q float64) float64 {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median is the middle, or the mean of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// paired compares the median of each round of a to that of the same round of b.
// Noise of the machine that lasts longer than a round hits both alike. Rounds in
// which one of them has no value are left out.
func paired(a, b [][]float64, compare func(over, under float64) float64) []float64 {
	var values []float64
	for i := range min(len(a), len(b)) {
		if over, under := median(a[i]), median(b[i]); len(a[i]) > 0 && under > 0 {
			values = append(values, compare(over, under))
		}
	}
	return values
}

// medians are those of the rounds that have a value.
func medians(rounds [][]float64) []float64 {
	var values []float64
	for _, round := range rounds {
		if len(round) > 0 {
			values = append(values, median(round))
		}
	}
	return values
}

func ratio(over, under float64) float64      { return over / under }
func difference(over, under float64) float64 { return over - under }
