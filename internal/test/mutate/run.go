package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// tests are those of a package, in one program.
type tests struct {
	dir     string // where they run
	program string
	temp    string
	all     []test // fastest first
}

type test struct {
	name    string
	took    time.Duration
	cpu     time.Duration
	reaches map[int]bool
}

// slow goes by what a test computes, since others may keep the machine busy, unless
// it waits for long.
func (a test) slow(limit time.Duration) bool { return a.cpu > limit || a.took > 10*limit }

func (t *tests) build(ctx context.Context, overlay, path string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", t.program, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}

// slowest is the limit of a test that runs alone without a mutant.
const slowest = 2 * time.Minute

// measure runs each test alone and tells which ones are left out because they
// take longer than slow.
func (t *tests) measure(ctx context.Context, slow time.Duration) (left []string, err error) {
	out, err := exec.CommandContext(ctx, t.program, "-test.list", "^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		a, err := t.alone(ctx, name, slow)
		if err != nil {
			return nil, err
		}
		if a.slow(slow) {
			left = append(left, fmt.Sprintf("%s takes %v, and %v of a processor", name, a.took.Round(time.Second/10), a.cpu.Round(time.Second/10)))
			continue
		}
		t.all = append(t.all, a)
	}
	slices.SortFunc(t.all, func(a, b test) int { return int(a.took - b.took) })
	return left, nil
}

// alone runs a test without a mutant. One that is slow is of no use: it may fail.
func (t *tests) alone(ctx context.Context, name string, slow time.Duration) (test, error) {
	file := filepath.Join(t.temp, "reached")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return test{}, err
	}
	start := time.Now()
	ok, cpu, out, err := t.run(ctx, []string{name}, slowest, "CORRAL_MUTANT_REACHED="+file)
	if err != nil {
		return test{}, err
	}
	a := test{name: name, took: time.Since(start), cpu: cpu}
	if !ok && !a.slow(slow) {
		return test{}, fmt.Errorf("%s fails alone, without a mutant:\n%s", name, out)
	}
	a.reaches, err = readNumbers(file)
	return a, err
}

func readNumbers(file string) (map[int]bool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	numbers := map[int]bool{}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		n, err := strconv.Atoi(s.Text())
		if err != nil {
			return nil, err
		}
		numbers[n] = true
	}
	return numbers, nil
}

// try finds out about each mutant that is not ignored.
func (t *tests) try(ctx context.Context, mutants []*mutant, parallel int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, m := range mutants {
		if m.ignored {
			continue
		}
		g.Go(func() (err error) {
			m.state, err = t.kill(ctx, m.number)
			return err
		})
	}
	return g.Wait()
}

// firstBatch is how long the tests take that run first; the next ones may take
// four times as long, and so on.
const firstBatch = 100 * time.Millisecond

func (t *tests) kill(ctx context.Context, number int) (state, error) {
	found := unreached
	most, took := firstBatch, time.Duration(0)
	var batch []string
	for i, a := range t.all {
		if a.reaches[number] {
			batch = append(batch, a.name)
			took += a.took
			found = lived
		}
		if len(batch) == 0 || took < most && i < len(t.all)-1 {
			continue
		}
		limit := 5*took + 2*time.Second
		start := time.Now()
		ok, _, _, err := t.run(ctx, batch, limit, "CORRAL_MUTANT="+strconv.Itoa(number))
		switch {
		case err != nil:
			return unreached, err
		case !ok && time.Since(start) >= limit:
			return hung, nil
		case !ok:
			return killed, nil
		}
		batch, took, most = nil, 0, 4*most
	}
	return found, nil
}

// run runs tests and tells whether they all pass within a time, and what they
// compute. A mutant may eat memory without end, hence ulimit. timeout kills the whole
// process group.
func (t *tests) run(ctx context.Context, names []string, limit time.Duration, env string) (ok bool, cpu time.Duration, output []byte, err error) {
	temp, err := os.MkdirTemp(t.temp, "")
	if err != nil {
		return false, 0, nil, err
	}
	defer os.RemoveAll(temp)
	cmd := exec.CommandContext(ctx, "timeout", "-s", "KILL", fmt.Sprint(limit.Seconds()),
		"sh", "-c", `ulimit -v 8000000 && exec "$0" "$@"`,
		t.program, "-test.failfast", "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = t.dir
	// Random tests are the same each time, write nothing into the tree, and do not
	// look for the smallest example.
	cmd.Env = append(os.Environ(), "RAPID_SEED=1", "RAPID_NOFAILFILE=1", "RAPID_SHRINKTIME=0s", "TMPDIR="+temp, env)
	// A file, not a pipe that what the tests started could hold open.
	out, err := os.Create(filepath.Join(temp, "output"))
	if err != nil {
		return false, 0, nil, err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	if ctx.Err() != nil {
		return false, 0, nil, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() == 125 || exit.ExitCode() == 126 || exit.ExitCode() == 127) {
		return false, 0, nil, fmt.Errorf("%v: %w", cmd, err)
	}
	if err != nil {
		output, _ = os.ReadFile(out.Name())
	}
	return err == nil, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), output, nil
}
