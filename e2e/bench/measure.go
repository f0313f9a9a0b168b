//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// An experiment takes one kind of measurement in several places, in rounds:
// every place has its turn in every round, in an order that chance decides.
type experiment struct {
	name   string
	title  string
	unit   string
	rounds int
	reps   int // values a round of each place; fewer where jobs start slowly
	places []place
	// value is one measurement.
	value  func(ctx context.Context, p place) (float64, error)
	checks []check
}

// A check is the ratio of two places, and what it should be.
type check struct {
	over, under     string  // names of places; without under it is the value of over
	atMost, atLeast float64 // 0: no target
	added           bool    // it is their difference instead, in the experiment's unit
}

// slowShare is how many fewer values, and how much less data, slow places get.
const slowShare = 8

// run returns the values of each place, by round.
func (x experiment) run(ctx context.Context) (map[string][][]float64, error) {
	values := map[string][][]float64{}
	for _, p := range x.places { // files and code come into memory now
		if _, err := x.value(ctx, p); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", x.name, p.name, err)
		}
	}
	for range x.rounds {
		for _, turn := range rand.Perm(len(x.places)) {
			p := x.places[turn]
			settle()
			got := make([]float64, 0, x.reps)
			reps := x.reps
			if p.slowStart {
				reps = max(1, reps/slowShare)
			}
			for range reps {
				v, err := x.value(ctx, p)
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", x.name, p.name, err)
				}
				got = append(got, v)
			}
			values[p.name] = append(values[p.name], got)
		}
	}
	return values, nil
}

// settle waits until what the last measurement left is done: the kernel frees
// what belonged to thousands of processes, this program its garbage, all of
// which would be put down to the next place.
func settle() {
	runtime.GC()
	time.Sleep(pauseTime)
}

const pauseTime = 50 * time.Millisecond

// latency is how long a job takes, in milliseconds.
func latency(j job) func(context.Context, place) (float64, error) {
	return func(ctx context.Context, p place) (float64, error) {
		took, err := p.run(ctx, j)
		return float64(took) / float64(time.Millisecond), err
	}
}

// bandwidth is at which rate a job made for a size takes it in or puts it out,
// in MB/s.
func bandwidth(size int64, j func(size int64) job) func(context.Context, place) (float64, error) {
	return func(ctx context.Context, p place) (float64, error) {
		n := size
		if p.slowData {
			n /= slowShare
		}
		took, err := p.run(ctx, j(n))
		return float64(n) / 1e6 / took.Seconds(), err
	}
}

// throughput is how many jobs a second several workers get done, each one job
// at a time.
func throughput(j job, workers, jobs int) func(context.Context, place) (float64, error) {
	return func(ctx context.Context, p place) (float64, error) {
		group, ctx := errgroup.WithContext(ctx)
		var begun atomic.Int64 // a free worker takes the next: none is left behind at the end
		start := time.Now()
		for range workers {
			group.Go(func() error {
				for begun.Add(1) <= int64(jobs) {
					if _, err := p.run(ctx, j); err != nil {
						return err
					}
				}
				return nil
			})
		}
		err := group.Wait()
		return float64(jobs) / time.Since(start).Seconds(), err
	}
}
