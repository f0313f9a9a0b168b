package exectest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
)

// A Case is one behaviour of the contract.
type Case struct {
	Name string // group/behaviour
	Doc  string // the behaviour in one sentence
	Func func(t *T)

	serial bool // counts resources of this process, or changes them
	reopen bool // needs Target.Reopen
	memory bool // needs Target.Memory
}

// Cases are all cases, by group.
func Cases() []Case {
	return slices.Concat(
		exitCases, outputCases, stdinCases, ttyCases,
		envCases, pathCases, dirCases, argsCases,
		timeoutCases, drainCases, orphanCases, cancelCases, signalCases,
		startCases, attachCases, logCases, capCases, waitCases, removeCases, infoCases, oomCases,
		leakCases, reopenCases,
	)
}

// SummaryFile is the environment variable that names a file to which Run
// appends its summary line.
const SummaryFile = "CORRAL_CONFORMANCE_OUT"

// Run runs the cases against the target, each as a subtest of that name. The
// test that calls it must not be parallel: it counts the process's resources.
func Run(t *testing.T, tg Target) {
	t.Helper()
	if err := tg.check(); err != nil {
		t.Fatalf("target %s: %v", tg.Name, err)
	}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: commands of this process would ignore it too
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	shared := tg.New(t)
	var ran, unsupported, exempt, without int
	// The cases that count come first: parallel subtests, although started,
	// wait until this function has returned.
	for _, serial := range []bool{true, false} {
		for _, c := range Cases() {
			switch {
			case c.serial != serial:
			case c.reopen && tg.Reopen == nil:
				without++
			case c.memory && tg.Memory == 0:
				t.Logf("exempt: %s: commands have no memory limit of their own, and would take the machine's", c.Name)
				exempt++
			case tg.Exempt[c.Name] != "":
				t.Logf("exempt: %s: %s", c.Name, tg.Exempt[c.Name])
				exempt++
			case tg.unsupported(c.Name):
				unsupported++
				t.Run(c.Name, func(t *testing.T) {
					if !c.serial {
						t.Parallel()
					}
					c.unsupported(t, tg, shared)
				})
			default:
				ran++
				t.Run(c.Name, func(t *testing.T) {
					if !c.serial {
						t.Parallel()
					}
					c.Func(newT(t, tg, shared))
				})
			}
		}
	}
	t.Cleanup(func() {
		line := fmt.Sprintf("conformance: %s: %d cases, %d unsupported", tg.Name, ran+unsupported, unsupported)
		if exempt > 0 {
			line += fmt.Sprintf(", %d exempt", exempt)
		}
		if without > 0 {
			line += fmt.Sprintf(", %d without reopening", without)
		}
		if t.Failed() {
			line += ", FAILED"
		}
		t.Log(line)
		appendSummary(t, line)
	})
}

// unsupported runs a case that has to meet errors.ErrUnsupported. How the case
// fares after that tells nothing.
func (c Case) unsupported(t testing.TB, tg Target, shared corral.Executor) {
	t.Helper()
	failures, met := c.probe(t, tg, shared)
	switch {
	case met:
	case len(failures) == 0:
		t.Error("the case passes: take it off the target's list of the unsupported")
	default:
		t.Errorf("fails without answering errors.ErrUnsupported:\n%s", strings.Join(failures, "\n"))
	}
}

// probe runs the case aside: its failures are returned, not reported. met says
// whether a call answered errors.ErrUnsupported.
func (c Case) probe(t testing.TB, tg Target, shared corral.Executor) (failures []string, met bool) {
	rec := &recorder{scope: scope{TB: t}}
	u := &watch{}
	ct := newT(rec, tg, shared)
	ct.watch = u
	ct.X = u.executor(shared)
	done := make(chan struct{})
	go func() { // for FailNow, which ends its goroutine
		defer close(done)
		c.Func(ct)
	}()
	<-done
	met = u.met.Load() // not what the clean-up meets
	rec.end()
	return rec.failures, met
}

func (tg *Target) unsupported(name string) bool {
	return slices.ContainsFunc(tg.Unsupported, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // check has seen the error
		return ok
	})
}

// check finds mistakes that would make cases pass or vanish by themselves.
func (tg *Target) check() error {
	switch {
	case tg.Name == "" || tg.New == nil || tg.Workspace == "" || tg.TestProg == "":
		return errors.New("a target needs Name, New, Workspace and TestProg")
	case tg.BaseEnv == nil:
		return errors.New("a target needs BaseEnv; an empty one is not nil")
	}
	known := func(pattern string) error {
		for _, c := range Cases() {
			ok, err := path.Match(pattern, c.Name)
			if err != nil {
				return fmt.Errorf("pattern %q: %w", pattern, err)
			}
			if ok {
				return nil
			}
		}
		return fmt.Errorf("no case is called %q", pattern)
	}
	for _, pattern := range tg.Unsupported {
		if err := known(pattern); err != nil {
			return err
		}
	}
	for name, why := range tg.Exempt {
		if why == "" {
			return fmt.Errorf("the exemption from %s gives no reason", name)
		}
		if err := known(name); err != nil {
			return err
		}
	}
	return nil
}

func appendSummary(t testing.TB, line string) {
	file := os.Getenv(SummaryFile)
	if file == "" {
		return
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Errorf("summary: %v", err)
		return
	}
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Errorf("summary: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("summary: %v", err)
	}
}
