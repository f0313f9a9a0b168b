// Command mutate tells what tests would not notice: it changes one operator of a
// package at a time and runs the tests that reach it.
//
//	go run ./internal/test/mutate [-p N] [-min PERCENT] [-slow TIME] [-match REGEXP] PACKAGE...
//
// All mutants of a package are compiled into one test program, and an environment
// variable selects one of them (rewrite.go). Every test runs once alone, which
// tells the mutants that it reaches and how long it takes. Then the tests that
// reach a mutant run with it, the fast ones first, until one of them fails or
// hangs (run.go): the mutant is killed. Mutants that no test reaches are counted
// and not run; make test with -cover shows that code better.
//
// It fails if tests kill less than PERCENT of the mutants that they reach in any
// package, or if survivors.txt lists a file as complete and does not explain each
// of its survivors (survivors.go).
//
// Constants are not changed, nor are files for other systems than this one. Tests
// that need more than TIME of a processor are left out and named. Mutants in a
// program that a test builds are not active there. It needs timeout(1) and sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

type options struct {
	parallel int
	min      float64
	slow     time.Duration
	match    *regexp.Regexp // nil: every mutant
	file     string         // what is known about survivors
}

func main() {
	var o options
	flag.IntVar(&o.parallel, "p", runtime.NumCPU(), "how many mutants are tested at a time")
	flag.Float64Var(&o.min, "min", 85, "the least `percent` of the reached mutants to kill")
	flag.DurationVar(&o.slow, "slow", 4*time.Second, "leave out tests that compute for longer, or wait for ten times that")
	flag.StringVar(&o.file, "survivors", "internal/test/mutate/survivors.txt", "`file` with the complete files and the explained survivors")
	match := flag.String("match", "", "test only mutants whose FILE:LINE:COLUMN matches `regexp`, and list survivors only")
	flag.Parse()
	if *match != "" {
		o.match = regexp.MustCompile(*match)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx, os.Stdout, o, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, o options, packages []string) (ok bool, err error) {
	if len(packages) == 0 {
		return false, errors.New("no package is named")
	}
	known, err := readSurvivors(o.file)
	if err != nil {
		return false, err
	}
	top, err := os.Getwd()
	if err != nil {
		return false, err
	}
	ok = true
	for _, name := range packages {
		start := time.Now()
		mutants, err := mutatePackage(ctx, out, o, top, name)
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		s := count(mutants)
		fmt.Fprintf(out, "%s: %v in %v\n", name, s, time.Since(start).Round(time.Second))
		if o.match == nil && s.percent() < o.min {
			fmt.Fprintf(out, "%s: FAILED: less than %v %% are killed\n", name, o.min)
			ok = false
		}
		for _, m := range mutants {
			if m.state == lived && !known.explain(m) {
				fmt.Fprintln(out, m)
				if o.match == nil && known.complete[m.file] {
					fmt.Fprintf(out, "\tFAILED: %s is to be complete: add a test, or an explanation to %s\n", m.file, o.file)
					ok = false
				}
			}
		}
		if o.match == nil {
			for _, line := range known.unused(mutants) {
				fmt.Fprintln(out, "FAILED:", line)
				ok = false
			}
		}
	}
	return ok, nil
}

func mutatePackage(ctx context.Context, out io.Writer, o options, top, name string) ([]*mutant, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p, err := load(ctx, name)
	if err != nil {
		return nil, err
	}
	p.top = top
	overlay, mutants, err := p.rewrite(dir)
	if err != nil {
		return nil, err
	}
	t := tests{dir: p.Dir, program: filepath.Join(dir, "tests"), temp: dir}
	if err := t.build(ctx, overlay, p.ImportPath); err != nil {
		return nil, err
	}
	left, err := t.measure(ctx, o.slow)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		fmt.Fprintf(out, "%s: left out: %s\n", name, l)
	}
	if o.match != nil {
		for _, m := range mutants {
			m.ignored = !o.match.MatchString(m.place())
		}
	}
	return mutants, t.try(ctx, mutants, o.parallel)
}

// sums are of a package.
type sums struct{ all, reached, killed, hung, lived int }

func count(mutants []*mutant) sums {
	s := sums{all: len(mutants)}
	for _, m := range mutants {
		switch m.state {
		case killed:
			s.killed++
		case hung:
			s.killed++
			s.hung++
		case lived:
			s.lived++
		}
	}
	s.reached = s.killed + s.lived
	return s
}

func (s sums) percent() float64 {
	if s.reached == 0 {
		return 0
	}
	return 100 * float64(s.killed) / float64(s.reached)
}

func (s sums) String() string {
	return fmt.Sprintf("%d mutants, %d reached, %d killed (%d by a time-out), %d lived: %.1f %%", s.all, s.reached, s.killed, s.hung, s.lived, s.percent())
}
