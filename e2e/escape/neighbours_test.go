//go:build e2e && linux

package escape_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/doctable"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/seccomp"
)

// neighbourTargets are also those that have no weakened containers: here the weak
// ones are sandboxes whose user is shared.
var neighbourTargets = append(slices.Clone(targets), target{name: "podman", open: openPodman})

// A street is some sandboxes of one engine, with the probes at hand.
type street struct {
	t       *testing.T
	eng     weakener
	tg      target
	dir     string
	profile string // that allows keys
}

func newStreet(t *testing.T, tg target) *street {
	t.Helper()
	s := &street{t: t, tg: tg, eng: tg.open(t), dir: testdir.New(t)}
	built.Copy(t, "cmd/corral-escape", filepath.Join(s.dir, "probe"))
	p := *seccomp.Profile("amd64")
	p.Syscalls = append(slices.Clone(p.Syscalls), specs.LinuxSyscall{Names: []string{"add_key", "keyctl"}, Action: specs.ActAllow})
	raw, err := json.Marshal(p)
	must(t, err)
	s.profile = filepath.Join(s.dir, "profile.json")
	must(t, os.WriteFile(s.profile, raw, 0o600))
	return s
}

func (s *street) config(name string, change func(*sandbox.Config)) sandbox.Config {
	s.t.Helper()
	path := filepath.Join(s.dir, "corral-warden")
	if !exists(path) {
		path = warden(s.t, &site{dir: s.dir})
	}
	cfg := sandbox.Config{
		Engine: s.eng, StateDir: filepath.Join(s.dir, "state"), Name: name, Image: images.Busybox, Runtime: s.tg.runtime, WardenPath: path,
		Mounts: sandbox.Mounts{Binds: []string{filepath.Join(s.dir, "probe") + ":/probe:ro"}}, Resources: sandbox.Resources{Memory: 4 << 30},
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func (s *street) open(name string, change func(*sandbox.Config)) *sandbox.Executor {
	s.t.Helper()
	x, err := sandbox.New(s.config(name, change))
	must(s.t, err)
	s.t.Cleanup(func() {
		if err := errors.Join(x.Remove(context.Background()), x.Close()); err != nil {
			s.t.Error(err)
		}
	})
	return x
}

// hold has a sandbox hold as much of a limit as it gets, until release.
func hold(t *testing.T, x *sandbox.Executor, id string) (held string, release func()) {
	t.Helper()
	p, err := x.Start(t.Context(), corral.Command{Args: []string{"/probe", "hold", id}, Stdin: true, MergeStderr: true})
	must(t, err)
	release = func() {
		if err := p.CloseStdin(context.Background()); err != nil && !errors.Is(err, corral.ErrEnded) {
			t.Error(err)
		}
		if _, err := p.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := outputTo(ctx, p, "\n")
	if err != nil || !strings.HasPrefix(out, "holds ") {
		release()
		t.Fatalf("%s: %q, %v", id, out, err)
	}
	return strings.TrimSpace(out), release
}

// outputTo is what a process wrote, from when it has a text in it.
func outputTo(ctx context.Context, p corral.Process, text string) (string, error) {
	var out []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(out, []byte(text)) {
		c, err := p.Log().Read(ctx, int64(len(out)), buf)
		if err != nil {
			return string(out), err
		}
		out = append(out, c.Data...)
	}
	return string(out), nil
}

// fewerWatches lowers the number of epoll watches that a user may have, until the test
// ends. A machine of 24 GB allows 5 million, and to hold them all takes 12 s of a
// processor and 1 GB each time. make escape does.
func fewerWatches(t *testing.T) {
	const file, enough = "/proc/sys/fs/epoll/max_user_watches", 200_000
	old, err := os.ReadFile(file)
	must(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(old)))
	must(t, err)
	if long || n <= enough { // or another test has lowered it, and raises it again
		return
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(enough)), 0); err != nil {
		t.Logf("all %d watches will be held: %v", n, err)
		return
	}
	// It is raised again by a process that outlives this one, should it be killed: other
	// tests need more.
	restore := exec.Command("sh", "-c", `read x; echo "$1" >"$2"`, "sh", strings.TrimSpace(string(old)), file)
	restore.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	end, err := restore.StdinPipe()
	must(t, err)
	must(t, restore.Start())
	t.Cleanup(func() {
		must(t, end.Close())
		must(t, restore.Wait())
	})
}

func needs(t *testing.T, x corral.Executor, id string) probes.Verdict {
	t.Helper()
	res, err := runner.Run(t.Context(), x, corral.Command{Args: []string{"/probe", "need", id}}, runner.Options{})
	var v probes.Verdict
	if err == nil {
		err = json.Unmarshal([]byte(lastLine(res.Stdout.String())), &v)
	}
	if err != nil {
		t.Fatalf("%s: %v, %v: %s", id, err, res.Exit, res.Stderr.String())
	}
	return v
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// A sandbox that holds all that a user may have takes nothing of its neighbour's;
// where the two have the same user it does, for each limit.
func TestNeighbours(t *testing.T) {
	fewerWatches(t)
	rows := map[string]map[string][2]escape.Outcome{}
	for _, tg := range neighbourTargets {
		t.Run(tg.name, func(t *testing.T) {
			s := newStreet(t, tg)
			for i, users := range []string{"", sandbox.SharedUIDs} {
				of := func(keys bool) func(*sandbox.Config) {
					return func(c *sandbox.Config) {
						if c.Isolation.UIDRange = users; users == sandbox.SharedUIDs {
							c.Isolation.User = fmt.Sprintf("%d:%d", nobody, nobody)
						}
						if keys && !tg.gvisor() {
							c.Isolation.Seccomp = s.profile
						}
					}
				}
				name := []string{"own", "shared"}[i]
				attacker, neighbour := s.open(name+"-attacker", of(false)), s.open(name+"-neighbour", of(false))
				for _, l := range probes.Limits() {
					a, n := attacker, neighbour
					if l.ID == probes.Keys {
						if got := needs(t, neighbour, l.ID); got.Outcome != escape.Held {
							t.Errorf("%s: %+v", l.ID, got)
						}
						a, n = s.open(name+"-attacker-keys", of(true)), s.open(name+"-neighbour-keys", of(true))
					}
					if v := needs(t, n, l.ID); v.Outcome != escape.Held {
						t.Errorf("%s: in quiet: %+v", l.ID, v)
					}
					held, release := hold(t, a, l.ID)
					v := needs(t, n, l.ID)
					release()
					t.Logf("%-26s %-7s %-8s the other %s; %s", l.ID, name, v.Outcome, held, v.Detail)
					want := escape.Held
					if users == sandbox.SharedUIDs && !tg.gvisor() {
						want = escape.Escaped
					}
					if v.Outcome != want {
						t.Errorf("%s, %s: %s, want %s: the other %s; %s", l.ID, name, v.Outcome, want, held, v.Detail)
					}
					if rows[l.ID] == nil {
						rows[l.ID] = map[string][2]escape.Outcome{}
					}
					r := rows[l.ID][tg.name]
					r[i] = v.Outcome
					rows[l.ID][tg.name] = r
				}
			}
		})
	}
	if t.Failed() || len(rows) == 0 || len(rows[probes.Keys]) < len(neighbourTargets) { // with -run of one
		return
	}
	var out strings.Builder
	out.WriteString("\n| limit | what is counted | by |")
	for _, tg := range neighbourTargets {
		out.WriteString(" " + tg.name + " | shared |")
	}
	out.WriteString("\n|---|---|---|" + strings.Repeat("---|---|", len(neighbourTargets)) + "\n")
	for _, l := range probes.Limits() {
		fmt.Fprintf(&out, "| `%s` | %s | %s |", l.ID, l.Has, l.Why)
		for _, tg := range neighbourTargets {
			r := rows[l.ID][tg.name]
			fmt.Fprintf(&out, " %s | %s |", r[0], r[1])
		}
		out.WriteString("\n")
	}
	doctable.Table{
		File:  docsFile,
		Begin: "<!-- This table is written by: e2e/engine.sh run go test -tags e2e -run 'Neighbours$' ./e2e/escape -update -->\n",
		End:   "<!-- end of the neighbours -->\n",
	}.Check(t, out.String(), *update)
}

// neighboursDir is set in a process that is a gateway, to be killed: see
// TestNeighboursAndRestart.
const neighboursDir = "CORRAL_TEST_NEIGHBOURS"

// Two sandboxes, beside one that holds all of every limit, lose nothing when their
// gateway is killed: what runs is reached by the next one, terminals begin, and
// commands take about as long as in quiet.
func TestNeighboursAndRestart(t *testing.T) {
	fewerWatches(t)
	for _, tg := range neighbourTargets {
		t.Run(tg.name, func(t *testing.T) { restartBeside(t, tg) })
	}
}

const terminals = 5

func restartBeside(t *testing.T, tg target) {
	s := newStreet(t, tg)
	if dir := os.Getenv(neighboursDir); dir != "" { // the first gateway
		s.dir = dir
		for _, name := range []string{"one", "two"} {
			x, err := sandbox.New(s.config(name, nil))
			must(t, err)
			for i := range terminals {
				_, err := x.Start(t.Context(), corral.Command{ID: fmt.Sprintf("%s-%d", name, i), Shell: "stty -echo; read a; echo got $a", TTY: &corral.Size{}})
				must(t, err)
			}
		}
		fmt.Println("\nREADY")
		select {} // until it is killed
	}
	attacker := s.open("attacker", nil)
	quiet := s.open("quiet", nil)
	before := latency(t, quiet)
	for _, l := range probes.Limits() {
		if l.ID == probes.Keys {
			continue // which it gets none of
		}
		held, release := hold(t, attacker, l.ID)
		t.Logf("%s: the attacker %s", l.ID, held)
		defer release()
	}

	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestNeighboursAndRestart$/^"+strings.ReplaceAll(tg.name, "/", "$/^")+"$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), neighboursDir+"="+s.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	lines, ready, said := bufio.NewScanner(out), false, ""
	for !ready && lines.Scan() {
		ready = lines.Text() == "READY"
		said += lines.Text() + "\n"
	}
	must(t, cmd.Process.Kill())
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // it was killed
	if !ready {
		t.Fatalf("the first gateway: %s", said)
	}

	for _, name := range []string{"one", "two"} {
		x := s.open(name, nil)
		for i := range terminals {
			id := fmt.Sprintf("%s-%d", name, i)
			p, err := x.Attach(t.Context(), id)
			if err != nil {
				t.Errorf("%s is not reached: %v", id, err)
				continue
			}
			if _, err := p.Write(t.Context(), []byte("it\n")); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			exit, err := p.Wait(t.Context())
			said, rerr := outputTo(t.Context(), p, "got it")
			if err := errors.Join(err, rerr); err != nil || !exit.Success() {
				t.Errorf("%s: %v, %v, %q", id, exit, err, said)
			}
		}
		for i := range 20 {
			res, err := runner.Run(t.Context(), x, corral.Command{Shell: "tty", TTY: &corral.Size{}}, runner.Options{})
			if err != nil || !res.Exit.Success() {
				t.Errorf("terminal %d of %s: %v, %v, %s", i, name, err, res.Exit, res.Stdout.String())
			}
		}
	}
	// Where the attacker holds everything and takes no processor: a neighbour that
	// computes is for the bombs.
	beside := latency(t, quiet)
	// What else this machine does passes, and what the attacker holds does not.
	for range 10 {
		if ratio(beside, before) <= slower {
			break
		}
		time.Sleep(2 * time.Second)
		beside = min(beside, latency(t, quiet))
	}
	t.Logf("a command takes %v in quiet, and %v beside it", before, beside)
	if long {
		fmt.Printf("NEIGHBOUR %-13s quiet %8v  beside %8v (%.2f)\n", tg.name, before.Round(time.Microsecond), beside.Round(time.Microsecond), ratio(beside, before))
	}
	if ratio(beside, before) > slower {
		t.Errorf("a command takes %v in quiet, and %v beside it", before, beside)
	}
}

// timed is of how many.
var timed = form(50, 200)

// latency is the median of what short commands take.
func latency(t *testing.T, x corral.Executor) time.Duration {
	t.Helper()
	var all []time.Duration
	for range timed {
		begun := time.Now()
		if res, err := runner.Run(t.Context(), x, corral.Command{Args: []string{"/bin/true"}}, runner.Options{}); err != nil || !res.Exit.Success() {
			t.Fatal(res.Exit, err)
		}
		all = append(all, time.Since(begun))
	}
	return median(all)
}
