package execdriver

import (
	"context"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox/engine"
)

// fakeEngine is an ExecEngine whose commands are functions of this package.
// Containers are called c1, c2, …
type fakeEngine struct {
	mu    sync.Mutex
	made  int      // containers
	kills []string // containers
	specs []engine.ExecSpec
	live  []*fakeExec

	noExec   []error       // of the first calls of Exec; nil: it works
	noKill   []error       // of the first calls of Kill
	noBox    error         // of Container
	hang     chan struct{} // Exec waits for it, if it is not nil
	whenKill func()        // called before a container ends
}

// next takes the first of a list of errors.
func next(list *[]error) error {
	if len(*list) == 0 {
		return nil
	}
	err := (*list)[0]
	*list = (*list)[1:]
	return err
}

func (e *fakeEngine) container(context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.noBox != nil {
		return "", e.noBox
	}
	if e.made == len(e.kills) {
		e.made++
	}
	return "c" + strconv.Itoa(e.made), nil
}

func (e *fakeEngine) kill(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := next(&e.noKill); err != nil {
		return err
	}
	if e.whenKill != nil {
		e.whenKill()
	}
	e.kills = append(e.kills, id)
	for _, x := range e.live {
		if x.container == id {
			x.exit(sigkilled)
			x.hangUp()
		}
	}
	return nil
}

func (e *fakeEngine) Exec(_ context.Context, id string, spec engine.ExecSpec) (engine.Exec, error) {
	if e.hang != nil {
		<-e.hang
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := next(&e.noExec); err != nil {
		return nil, err
	}
	x := &fakeExec{container: id, spec: spec, out: make(chan fakeOutput), exited: make(chan struct{}), gone: make(chan struct{}), killed: make(chan struct{})}
	x.stdin, x.input = io.Pipe()
	e.specs = append(e.specs, spec)
	e.live = append(e.live, x)
	go x.run()
	return x, nil
}

func (e *fakeEngine) runs() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.specs)
}

type fakeOutput struct {
	stream int
	data   string
	err    error // ends the stream; nil is io.EOF
}

// fakeExec is a command.
type fakeExec struct {
	container string
	spec      engine.ExecSpec
	out       chan fakeOutput
	rest      fakeOutput
	stdin     *io.PipeReader
	input     *io.PipeWriter

	once, goneOnce, killOnce sync.Once
	code                     int
	exited, gone, killed     chan struct{}
}

func (x *fakeExec) exit(code int) { x.once.Do(func() { x.code = code; close(x.exited) }) }
func (x *fakeExec) hangUp()       { x.killOnce.Do(func() { close(x.killed) }) }

// put prints, as long as anybody could read it.
func (x *fakeExec) put(stream int, data string) bool {
	select {
	case x.out <- fakeOutput{stream: stream, data: data}:
		return true
	case <-x.gone:
	case <-x.killed:
	}
	return false
}

// run is what the first argument says, with the rest.
func (x *fakeExec) run() {
	defer x.hangUp()
	args := x.spec.Args[1:]
	switch x.spec.Args[0] {
	case "exit":
		code, _ := strconv.Atoi(args[0])
		x.exit(code)
	case "say":
		x.put(1, args[0])
		x.put(2, args[1])
		x.exit(0)
	case "cat":
		b, _ := io.ReadAll(x.stdin)
		x.put(1, string(b))
		x.exit(0)
	case "deaf":
		x.stdin.Close()
		<-x.killed
	case "hold": // leaves a process behind that holds the output
		x.put(1, "bye")
		x.exit(0)
		<-x.killed
	case "flood": // leaves a process behind that does nothing but print
		x.exit(0)
		for x.put(1, "0123456789abcdef0123456789abcdef") {
		}
	case "trickle": // leaves a process behind that prints now and then
		x.exit(0)
		for x.put(1, ".") {
			time.Sleep(50 * time.Millisecond)
		}
	case "late": // what it prints takes its time
		x.exit(0)
		for range 5 {
			time.Sleep(100 * time.Millisecond)
			x.put(1, "0123456789")
		}
	case "cut":
		x.put(1, "half")
		x.out <- fakeOutput{err: io.ErrUnexpectedEOF}
		x.exit(0)
	default: // sleep
		<-x.killed
	}
}

func (x *fakeExec) Read(p []byte) (int, int, error) {
	if x.rest.data == "" {
		select {
		case x.rest = <-x.out:
		case <-x.gone:
			return 0, 0, os.ErrClosed
		case <-x.killed:
			return 0, 0, io.EOF
		}
	}
	if x.rest.err != nil {
		return 0, 0, x.rest.err
	}
	n := copy(p, x.rest.data)
	x.rest.data = x.rest.data[n:]
	return n, x.rest.stream, nil
}

func (x *fakeExec) Write(p []byte) (int, error)                  { return x.input.Write(p) }
func (x *fakeExec) CloseWrite() error                            { return x.input.Close() }
func (x *fakeExec) Resize(context.Context, uint16, uint16) error { return nil }

func (x *fakeExec) Result(ctx context.Context) (int, error) {
	select {
	case <-x.exited:
		return x.code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (x *fakeExec) Close() error {
	x.goneOnce.Do(func() { close(x.gone) })
	x.hangUp()
	return x.stdin.Close()
}

// fakeDriver is an Driver over a fakeEngine, in a directory.
func fakeDriver(t *testing.T, e *fakeEngine, dir string) *Driver {
	t.Helper()
	d, err := New(Options{
		Engine: e, Kill: e.kill, Dir: dir, User: "1:2",
		Info: corral.Info{Host: corral.HostSandbox, Sandboxed: true},
		Enter: func(ctx context.Context, cmd corral.Command) (string, pathenv.Plan, error) {
			id, err := e.container(ctx)
			return id, pathenv.Plan{Args: slices.Clone(cmd.Args), Env: pathenv.Environment{Vars: []string{"A=b"}}, Dir: "/d", Warnings: []string{"Beware."}}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		e.mu.Lock()
		for _, x := range e.live {
			x.hangUp()
			x.stdin.Close()
		}
		e.mu.Unlock()
		goleak.VerifyNone(t)
	})
	return d
}

func command(args ...string) corral.Command { return corral.Command{Args: args} }

func named(id string, args ...string) corral.Command { return corral.Command{ID: id, Args: args} }

func mustStart(t *testing.T, d *Driver, cmd corral.Command) corral.Process {
	t.Helper()
	p, err := d.Start(t.Context(), cmd)
	if err != nil {
		t.Fatalf("Start(%q): %v", cmd.Args, err)
	}
	return p
}

func mustWait(t *testing.T, p corral.Process) corral.Exit {
	t.Helper()
	exit, err := p.Wait(t.Context())
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return exit
}

// output is a log with a mark before each chunk.
func output(t *testing.T, p corral.Process) string {
	t.Helper()
	var out string
	buf := make([]byte, 1<<10)
	for off := int64(0); ; {
		c, err := p.Log().Read(t.Context(), off, buf)
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out += "<" + strconv.Itoa(int(c.Stream)) + ">" + string(c.Data)
		off = c.Next()
	}
}
