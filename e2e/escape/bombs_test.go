//go:build e2e && linux

package escape_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/doctable"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
)

// A bomb wants more of something than there is for one sandbox.
type bomb struct {
	name    string
	does    string // what it does, for the table
	command string // shell text; goes on until it is killed
	limit   string // what stops it, for the table
	told    string // and what is told of it
	says    string // what its output says once it has met its limit
	// fatal says why the bomb ends its whole sandbox on gVisor; empty: it does
	// not.
	fatal string
	// private: it goes off in a private workspace of a limited size.
	private bool
}

const ownThreads = "each process of the sandbox is some threads of gVisor's on the machine, of which there may be sixteen times as many as processes: gVisor itself ends"

var bombs = []bomb{
	{"fork", "starts processes that start two of their own each", "f() { f | f & }; f & exec sleep 60", "processes of a sandbox", "`can't fork` by the shell", `can't fork`, ownThreads, false},
	{"memory", "takes memory and uses it, again when it was killed", "while :; do " + program + " bomb memory; echo ended $?; done", "memory of a sandbox", "the reason `oom`", `ended 137`, "gVisor holds the memory of all its processes, so it is gVisor that is killed", false},
	{"disk", "fills /tmp, /var/tmp and /dev/shm", "while :; do for d in /tmp /var/tmp /dev/shm; do cat /dev/zero > $d/full; done; done", "size of each of them", "`No space left on device` to who writes", `No space left`, "", false},
	{"inode", "makes empty files", program + " bomb inode", "number of files in /tmp", "`no space left on device` to who makes one", `inode stopped after \d+: no space left`, "it knows no such limit and holds the files in its memory, so it is gVisor that is killed", false},
	{"workspace disk", "fills its private workspace", "while :; do cat /dev/zero > full; done", "size of a private workspace, `sandbox.workspaceSize`", "`No space left on device` to who writes", `No space left`, "", true},
	{"workspace inode", "makes empty files in its private workspace", "i=0; while true > f$i; do i=$((i+1)); done; sleep 120", "number of files in it, which goes with the size", "`No space left on device` to who makes one", `No space left`, "", true},
	{"fd", "opens files", program + " bomb fd", "open files of a process", "`too many open files` to who opens one", `fd stopped after \d+: too many open files`, "", false},
	{"output", "prints without end", "yes", "size of the log: head and tail are kept", "the number of bytes left out", `y`, "", false},
	{"zombie", "starts processes and does not wait for their end", program + " bomb zombie", "processes of a sandbox", "`resource temporarily unavailable` to who starts one", `zombie stopped after \d+: .*resource temporarily unavailable`, ownThreads, false},
}

const program = sandbox.Workdir + "/probe"

// growth is how much the gateway's memory may grow under a bomb, in bytes.
const growth = 64 << 20

// long: the tests have the machine to themselves, and time.
var long = os.Getenv("CORRAL_ESCAPE_LONG") != ""

// forms are how the tests are run by make test, beside others, and by make
// escape.
func form[T any](short, alone T) T {
	if long {
		return alone
	}
	return short
}

var (
	// slower is by how much a neighbour's commands may take longer because of a
	// bomb; see share. Beside other tests it shows only whether the neighbour gets
	// anything at all.
	slower = form(3, 1.2)
	// goingOff is how long it may take until a bomb has met its limit.
	goingOff = time.Minute
)

// attempts at a measurement, since others use the machine as well: what slows a
// neighbour slows it each time.
const attempts = 5

// A share is what each sandbox of a test may use of the machine's processors, and
// what is demanded for the neighbour then.
type share struct {
	name       string
	processors float64
	// fading is how long gVisor is given to end by a bomb: with less than a minute
	// it need not.
	fading time.Duration
	slowed func(burden) float64
}

var (
	// half of a small machine: beside anything that uses it, the rest of the
	// machine is slower, so a bomb is held against honest work.
	half = share{
		name: "", processors: 1, fading: form(2*time.Second, time.Minute),
		slowed: func(b burden) float64 { return b.toLoad },
	}
	// tenth leaves the machine room: then a neighbour hardly notices.
	tenth = share{
		name: ", a tenth", processors: 0.1 * float64(runtime.NumCPU()), fading: 2 * time.Second,
		slowed: func(b burden) float64 { return b.toQuiet },
	}
	plans = form([]share{half}, []share{half, tenth})
)

// gatewayProcessors that the gateway may take for a bomb beside those.
const gatewayProcessors = 1.0

func TestBombs(t *testing.T) {
	checkBombTable(t)
	for _, tg := range targets {
		for _, sh := range plans {
			t.Run(tg.name+sh.name, func(t *testing.T) { newField(t, tg, sh).tryAll() })
		}
	}
}

func newField(t *testing.T, tg target, sh share) field {
	t.Helper()
	s := newSite(t)
	eng := tg.open(t)
	sandbox := func(name string) *sandbox.Executor { return s.limited(t, eng, tg, name, sh.processors) }
	f := field{t: t, eng: eng, tg: tg, share: sh, attacker: sandbox("attacker"), neighbour: sandbox("neighbour")}
	f.private = s.privately(t, eng, tg, sh.processors)
	for _, load := range loads {
		f.loads = append(f.loads, startLoad(t, sandbox(load.name), load.loop))
	}
	return f
}

func (f field) tryAll() {
	t := f.t
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) { f.t = t; f.try(b) })
	}
	t.Run("reason", func(t *testing.T) { f.t = t; f.reason() })
	t.Run("victims", func(t *testing.T) { f.t = t; f.victims() })
}

// sandbox is one with the limits that all have.
func (s *site) sandbox(t *testing.T, eng weakener, tg target) *sandbox.Executor {
	t.Helper()
	return open(t, s.config(t, eng, tg, ""))
}

// limited is one with a share of the processors, and little memory, which is met
// sooner.
func (s *site) limited(t *testing.T, eng weakener, tg target, name string, processors float64) *sandbox.Executor {
	t.Helper()
	cfg := s.config(t, eng, tg, name)
	cfg.Resources.Memory, cfg.Resources.Tmp, cfg.Resources.CPUs = 512<<20, 64<<20, processors
	return open(t, cfg)
}

// privately is one that has a private workspace of a limited size.
func (s *site) privately(t *testing.T, eng weakener, tg target, processors float64) *sandbox.Executor {
	t.Helper()
	cfg := s.config(t, eng, tg, "private")
	cfg.Workspace.Dir, cfg.Workspace.Access, cfg.Workspace.Size = "", sandbox.AccessNone, 64<<20
	cfg.Resources.Memory, cfg.Resources.CPUs = 512<<20, processors
	return open(t, cfg)
}

func open(t *testing.T, cfg sandbox.Config) *sandbox.Executor {
	t.Helper()
	x, err := sandbox.New(cfg)
	must(t, err)
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// A field is where a bomb goes off.
type field struct {
	t                   *testing.T
	eng                 weakener
	tg                  target
	share               share
	attacker, neighbour *sandbox.Executor
	private             *sandbox.Executor // as attacker, with a private workspace
	loads               []cgroup          // frozen; see startLoad
}

// try lets a bomb go off beside a neighbour, until it is shown that it slows the
// neighbour by little.
func (f field) try(b bomb) {
	f.t.Helper()
	if b.private {
		f.attacker = f.private
	}
	var cost burden
	for range attempts {
		if cost = f.once(b); f.share.slowed(cost) < slower || f.t.Failed() {
			break
		}
	}
	if f.share.slowed(cost) >= slower {
		f.t.Errorf("%s: %d times out of %d, %v", b.name, attempts, attempts, cost)
	}
	// These hold however busy the machine is. In a slice there may be what the
	// sandbox has for one of the scheduler's periods, unused from before.
	if cost.attacker > 1.2*f.share.processors*float64(slice+period)/float64(slice) {
		f.t.Errorf("%s: the sandbox may use %v processors, and took %.2f", b.name, f.share.processors, cost.attacker)
	}
	if cost.gateway > gatewayProcessors {
		f.t.Errorf("%s: the gateway took %.2f processors for the bomb", b.name, cost.gateway)
	}
	if long {
		fmt.Printf("BOMB %-23s %-15s quiet %8v  load %8v (%.2f)  bomb %8v (%.2f; to load %.2f)  sandbox %.2f, gateway %.2f processors\n",
			f.tg.name+f.share.name, b.name, cost.quiet.Round(time.Microsecond), cost.loaded.Round(time.Microsecond), cost.loadToQuiet,
			cost.bombed.Round(time.Microsecond), cost.toQuiet, cost.toLoad, cost.attacker, cost.gateway)
	}
}

func (f field) once(b bomb) burden {
	t := f.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	f.run(f.attacker, "rm -rf /tmp/* /var/tmp/* /dev/shm/*") // it works, also after the bomb before
	if b.private {
		f.run(f.attacker, "rm -f f*")
	}
	f.run(f.neighbour, ":")
	ice := containerOf(t, f.attacker)
	rss := watchMemory()
	p, err := f.attacker.Start(ctx, corral.Command{Shell: b.command, Timeout: 2 * time.Minute, MergeStderr: true})
	must(t, err)
	cost := f.bear(ctx, ice)
	fatal := f.tg.gvisor() && b.fatal != ""
	patience := goingOff
	if fatal {
		patience = f.share.fading
	}
	said, met := f.await(ctx, p, b, patience)
	if met && !f.tg.gvisor() {
		f.press(ctx, p)
	}
	if err := p.Signal(ctx, corral.SIGKILL); err != nil && !errors.Is(err, corral.ErrEnded) && b.fatal == "" {
		t.Errorf("%s: %v", b.name, err)
	}
	exit, err := p.Wait(ctx)
	dead := err != nil
	grown := rss()
	st, serr := p.Log().Stat(ctx)
	must(t, serr)
	t.Logf("%s: %v, %v; %d bytes of output; the gateway grew by %d KiB; %v; says %.200q", b.name, exit, err, st.Size, grown>>10, cost, said)
	switch {
	case dead && !fatal:
		t.Errorf("%s: ended the sandbox: %v", b.name, err)
	case !dead && !met && (!fatal || f.share.fading >= time.Minute):
		t.Errorf("%s: has not met its limit (%s) after %v: %.300q", b.name, b.limit, patience, said)
	case !dead && exit.Signal != corral.SIGKILL:
		t.Errorf("%s: ended with %v", b.name, exit)
	}
	if grown > growth {
		t.Errorf("%s: the gateway's memory grew by %d bytes", b.name, grown)
	}
	if kept := st.Size - st.Gap(); kept > corral.LimitOutput.Head+corral.LimitOutput.Tail {
		t.Errorf("%s: %d bytes of output are kept", b.name, kept)
	}
	return cost
}

// reason demands that a command which was killed for want of memory says so. On
// gVisor it takes the sandbox with it, so it is lost, and that is said.
func (f field) reason() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	f.run(f.attacker, "rm -rf /tmp/* /var/tmp/* /dev/shm/*")
	res, err := runner.Run(ctx, f.attacker, corral.Command{Args: []string{program, "bomb", "memory"}}, runner.Options{})
	f.t.Logf("memory: %v, %v", res.Exit, err)
	switch {
	case f.tg.gvisor() && errors.Is(err, corral.ErrLost):
	case err != nil || res.Exit.Reason != corral.ReasonOOM || res.Exit.Signal != corral.SIGKILL:
		f.t.Errorf("memory: %v (reason %q), %v", res.Exit, res.Exit.Reason, err)
	}
}

// victims demands that the kernel, when there is no memory left, kills commands
// before their warden. GVisor is killed as a whole.
func (f field) victims() {
	f.t.Helper()
	if f.tg.gvisor() {
		return
	}
	// A command becomes as ready as that just after its start, each of them.
	const text = "until grep -qx 1000 /proc/$$/oom_score_adj; do sleep 0.1; done; sh -c 'cat /proc/self/oom_score_adj /proc/1/oom_score_adj'"
	for range 50 {
		res, err := runner.Run(f.t.Context(), f.attacker, corral.Command{Shell: text, Timeout: 20 * time.Second}, runner.Options{})
		if want := "1000\n0\n"; err != nil || res.Stdout.String() != want {
			f.t.Fatalf("commands and their warden have %q (%v), want %q", res.Stdout.String(), err, want)
		}
	}
}

// await waits until a bomb has met its limit, or ended.
func (f field) await(ctx context.Context, p corral.Process, b bomb, patience time.Duration) (said string, met bool) {
	f.t.Helper()
	says := regexp.MustCompile(b.says)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		st, err := p.Log().Stat(ctx)
		must(f.t, err)
		if said = excerpt(ctx, f.t, p.Log(), st); says.MatchString(said) {
			return said, true
		}
		if st.Ended {
			return said, false
		}
	}
	return said, false
}

// excerpt is the first and the last of an output.
func excerpt(ctx context.Context, t *testing.T, log corral.Log, st corral.LogStat) string {
	t.Helper()
	var text []byte
	for _, off := range []int64{0, max(0, st.Size-2048)} {
		if off >= st.Size {
			break
		}
		b := make([]byte, 2048)
		c, err := log.Read(ctx, off, b)
		must(t, err)
		text = append(text, c.Data...)
	}
	return string(text)
}

func (f field) run(x corral.Executor, shell string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	res, err := runner.Run(ctx, x, corral.Command{Shell: shell}, runner.Options{})
	if err != nil || !res.Exit.Success() {
		f.t.Fatalf("%s: %v, %v", shell, res.Exit, err)
	}
}

// watchMemory samples this process's resident memory, which is the gateway's,
// until grown is called: by how many bytes it grew at most.
func watchMemory() (grown func() int64) {
	start, top := resident(), int64(0)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			top = max(top, resident())
			select {
			case <-time.After(20 * time.Millisecond):
			case <-done:
				return
			}
		}
	})
	return func() int64 {
		close(done)
		watching.Wait()
		return top - start
	}
}

func resident() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	var size, pages int64
	if _, serr := fmt.Sscan(string(b), &size, &pages); err != nil || serr != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func checkBombTable(t *testing.T) {
	t.Helper()
	var out strings.Builder
	out.WriteString("\n| bomb | what it does | stopped by | what is told | on gVisor |\n|---|---|---|---|---|\n")
	for _, b := range bombs {
		gvisor := "the same"
		if b.fatal != "" {
			gvisor = "may end its sandbox: " + b.fatal
		}
		fmt.Fprintf(&out, "| %s | %s | the limit of the %s | %s | %s |\n", b.name, b.does, b.limit, b.told, gvisor)
	}
	doctable.Table{
		File:  docsFile,
		Begin: "<!-- This table is written by: e2e/engine.sh run go test -tags e2e -run Bombs ./e2e/escape -update -->\n",
		End:   "<!-- end of the bombs -->\n",
	}.Check(t, out.String(), *update)
}
