package main

import (
	"slices"
	"testing"
)

func TestSummarize(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, tc := range []struct {
		name   string
		values []float64
		want   summary
	}{
		{"nothing", nil, summary{}},
		{"one", []float64{7}, summary{1, 7, 7, 7}},
		{"two", []float64{4, 2}, summary{2, 2, 3, 4}},
		{"three", []float64{9, 1, 2}, summary{3, 1, 2, 9}},
		{"the 99th of 100, not the last", hundred, summary{100, 1, 50.5, 99}},
	} {
		before := slices.Clone(tc.values)
		if got := summarize(tc.values); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if !slices.Equal(before, tc.values) {
			t.Errorf("%s: the values were sorted in place", tc.name)
		}
	}
}

func TestPaired(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b [][]float64
		want []float64
	}{
		{"none", nil, nil, nil},
		{"medians, not means", [][]float64{{2, 2, 100}}, [][]float64{{1, 1, 1}}, []float64{2}},
		{"a slow round hits both alike", [][]float64{{2}, {20}}, [][]float64{{1}, {10}}, []float64{2, 2}},
		{"a round without a value", [][]float64{{2}, {}, {3}}, [][]float64{{1}, {1}, {}}, []float64{2}},
		{"a round that one of them does not have", [][]float64{{2}, {4}}, [][]float64{{1}}, []float64{2}},
	} {
		if got := paired(tc.a, tc.b, ratio); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
	if got := medians([][]float64{{3, 1, 2}, {}, {5}}); !slices.Equal(got, []float64{2, 5}) {
		t.Errorf("medians %v", got)
	}
	if got := paired([][]float64{{3}, {1}}, [][]float64{{1}, {2}}, difference); !slices.Equal(got, []float64{2, -1}) {
		t.Errorf("differences %v", got)
	}
}
