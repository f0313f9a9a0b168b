package docker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

// scripted is an engine that does what a test says.
type scripted struct {
	version    string // of its API
	env        []string
	noExec     int  // status with which exec create fails
	noStart    int  // status with which exec start fails
	cut        bool // exec start is not answered
	stopped    bool // the container does not run
	forgotten  bool // exec inspect finds nothing
	unanswered int  // exec inspects that fail first

	// What the command prints, and what exec inspect says: each state once,
	// the last for ever.
	output string
	states []container.ExecInspect

	mu      sync.Mutex
	created []container.ExecOptions
	resized []string
	input   strings.Builder
	ended   bool // the input
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	reply := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	problem := func(status int) { reply(status, map[string]string{"message": "refused"}) }
	switch {
	case r.URL.Path == "/_ping":
		w.Header().Set("Api-Version", s.version)
	case path == "containers/box/json":
		reply(http.StatusOK, map[string]any{"Id": "box", "Config": map[string]any{"Env": s.env}, "State": map[string]any{"Running": !s.stopped}})
	case path == "containers/box/exec" && s.noExec != 0:
		problem(s.noExec)
	case path == "containers/box/exec":
		var o container.ExecOptions
		_ = json.NewDecoder(r.Body).Decode(&o)
		s.created = append(s.created, o)
		reply(http.StatusCreated, map[string]string{"Id": "e"})
	case path == "exec/e/start" && s.noStart != 0:
		problem(s.noStart)
	case path == "exec/e/start":
		_, _ = io.Copy(io.Discard, r.Body)
		s.start(w)
	case path == "exec/e/resize":
		s.resized = append(s.resized, r.URL.Query().Get("h")+"x"+r.URL.Query().Get("w"))
	case path == "exec/e/json" && s.unanswered > 0:
		s.unanswered--
		problem(http.StatusInternalServerError)
	case path == "exec/e/json" && !s.forgotten && len(s.states) > 0:
		reply(http.StatusOK, s.states[0])
		if len(s.states) > 1 {
			s.states = s.states[1:]
		}
	default:
		problem(http.StatusNotFound)
	}
}

// start hands the connection over to the command.
func (s *scripted) start(w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	if s.cut {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"+s.output)
	if !s.created[len(s.created)-1].AttachStdin || s.states[0] == failed {
		return
	}
	s.mu.Unlock()
	b, err := io.ReadAll(rw)
	s.mu.Lock()
	s.input.Write(b)
	s.ended = err == nil
}

func (s *scripted) serve(t *testing.T) *Engine {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	if s.version == "" {
		s.version = "1.44"
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	e, err := New(Options{Host: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		server.Close()
		<-done
	})
	return e
}

var (
	starting = container.ExecInspect{Running: true}
	running  = container.ExecInspect{Running: true, Pid: 7}
	failed   = container.ExecInspect{ExitCode: 126}
)

func exited(code int) container.ExecInspect { return container.ExecInspect{Pid: 7, ExitCode: code} }

func TestExec(t *testing.T) {
	s := &scripted{
		env:    []string{"PATH=/bin", "SECRET=1", "LANG=C"},
		output: frame(1, "out") + frame(2, "err"),
		states: []container.ExecInspect{{}, starting, running, exited(3)},
	}
	e := s.serve(t)
	x, err := e.Exec(t.Context(), "box", engine.ExecSpec{Args: []string{"prog", "arg"}, Env: []string{"PATH=/p", "LANG=D", "A=b"}, Dir: "/d", User: "1:2"})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	want := []container.ExecOptions{{
		Cmd: []string{"prog", "arg"}, WorkingDir: "/d", User: "1:2", AttachStdout: true, AttachStderr: true,
		Env: []string{"PATH=/p", "LANG=D", "A=b", "HOSTNAME", "TERM", "SECRET"},
	}}
	if diff := cmp.Diff(want, s.created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	buf := make([]byte, 100)
	for _, want := range []struct {
		n, stream int
		err       error
	}{{3, 1, nil}, {3, 2, nil}, {0, 0, io.EOF}} {
		if n, stream, err := x.Read(buf); n != want.n || stream != want.stream || err != want.err {
			t.Errorf("Read: %d, %d, %v, not %v", n, stream, err, want)
		}
	}
	if code, err := x.Result(t.Context()); code != 3 || err != nil {
		t.Errorf("Result: %d, %v", code, err)
	}
}

func TestExecErrors(t *testing.T) {
	oci := func(text string) string {
		return frame(1, "OCI runtime exec failed: exec failed: unable to start container process: "+text+": unknown\r\n")
	}
	for _, test := range []struct {
		name   string
		engine *scripted
		args   []string
		want   error
		text   string
	}{
		{"no such program", &scripted{output: oci(`exec: "x": executable file not found in $PATH`), states: []container.ExecInspect{starting, failed}}, nil, nil, "not found in $PATH"},
		{"no such directory", &scripted{output: oci(`chdir to cwd ("/x") set in config.json failed: no such file or directory`), states: []container.ExecInspect{failed}}, nil, corral.ErrDir, "/x"},
		{"the failure is not all there", &scripted{output: oci("x")[:20], states: []container.ExecInspect{failed}}, nil, corral.ErrUnavailable, "does not say why"},
		{"the engine's own failure", &scripted{output: frame(1, "unable to find user x"), states: []container.ExecInspect{failed}}, nil, corral.ErrUnavailable, "unable to find user x"},
		{"container stopped before", &scripted{noExec: http.StatusConflict, stopped: true}, nil, engine.ErrNoContainer, "runs"},
		{"container paused", &scripted{noExec: http.StatusConflict}, nil, corral.ErrUnavailable, "refused"},
		{"container removed", &scripted{noExec: http.StatusNotFound}, nil, engine.ErrNoContainer, "box"},
		{"container stopped in between", &scripted{noStart: http.StatusConflict, stopped: true}, nil, engine.ErrNoContainer, "runs"},
		{"start refused", &scripted{noStart: http.StatusInternalServerError}, nil, corral.ErrUnavailable, "500"},
		{"connection cut at the start", &scripted{cut: true}, nil, corral.ErrLost, "may have been started"},
		{"forgotten at once", &scripted{forgotten: true}, nil, corral.ErrLost, "may have been started"},
		{"not UTF-8", &scripted{}, []string{"a\xff"}, errors.ErrUnsupported, "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := test.engine.serve(t)
			if test.args == nil {
				test.args = []string{"prog"}
			}
			x, err := e.Exec(t.Context(), "box", engine.ExecSpec{Args: test.args})
			if err == nil {
				x.Close()
				t.Fatal("no error")
			}
			var failure *engine.ExecFailure
			if errors.As(err, &failure) != (test.want == nil) || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %v (%T)", err, err)
			}
		})
	}
}

func TestExecGivesUpWithItsContext(t *testing.T) {
	e := (&scripted{states: []container.ExecInspect{starting}}).serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := e.Exec(ctx, "box", engine.ExecSpec{Args: []string{"prog"}}); !errors.Is(err, corral.ErrLost) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestExecTerminal(t *testing.T) {
	spec := engine.ExecSpec{Args: []string{"prog"}, TTY: true, Rows: 11, Cols: 22}
	t.Run("new engine", func(t *testing.T) {
		s := &scripted{version: "1.44", output: "bare\r\n", states: []container.ExecInspect{exited(0)}}
		x, err := s.serve(t).Exec(t.Context(), "box", spec)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		o := s.created[0]
		if !o.Tty || !o.AttachStdin || o.ConsoleSize == nil || *o.ConsoleSize != [2]uint{11, 22} || !slices.Equal(o.Cmd, spec.Args) || o.DetachKeys == "" {
			t.Errorf("created %+v", o)
		}
		buf := make([]byte, 100)
		if n, stream, err := x.Read(buf); string(buf[:n]) != "bare\r\n" || stream != 1 || err != nil {
			t.Errorf("Read: %q, %d, %v", buf[:n], stream, err)
		}
	})
	t.Run("old engine", func(t *testing.T) {
		s := &scripted{version: "1.41", states: []container.ExecInspect{running}}
		x, err := s.serve(t).Exec(t.Context(), "box", spec)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if o := s.created[0]; o.ConsoleSize != nil || !slices.Equal(o.Cmd[4:], []string{"11", "22", "prog"}) {
			t.Errorf("created %+v", o)
		}
		if diff := cmp.Diff([]string{"11x22"}, s.resized); diff != "" {
			t.Errorf("resized (-want +got):\n%s", diff)
		}
	})
	t.Run("old engine, no shell", func(t *testing.T) {
		s := &scripted{version: "1.41", states: []container.ExecInspect{failed, running},
			output: `OCI runtime exec failed: exec failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown`}
		x, err := s.serve(t).Exec(t.Context(), "box", spec)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if len(s.created) != 2 || !slices.Equal(s.created[1].Cmd, spec.Args) {
			t.Errorf("created %+v", s.created)
		}
	})
}

func TestExecInput(t *testing.T) {
	s := &scripted{states: []container.ExecInspect{running}}
	x, err := s.serve(t).Exec(t.Context(), "box", engine.ExecSpec{Args: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if n, err := x.Write([]byte("in")); n != 2 || err != nil {
		t.Errorf("Write: %d, %v", n, err)
	}
	if err := x.CloseWrite(); err != nil {
		t.Error(err)
	}
	// The other direction is still open.
	if n, _, err := x.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("Read: %d, %v", n, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.input.String(); got != "in" || !s.ended {
		t.Errorf("the command read %q, to the end: %v", got, s.ended)
	}
}

func TestExecResult(t *testing.T) {
	for _, test := range []struct {
		name   string
		engine *scripted
		code   int
		err    error
	}{
		{"exit code", &scripted{states: []container.ExecInspect{running, running, exited(42)}}, 42, nil},
		{"the engine does not answer for a while", &scripted{states: []container.ExecInspect{running, exited(1)}, unanswered: 1}, 1, nil},
		{"killed by itself", &scripted{states: []container.ExecInspect{running, exited(137)}}, 137, nil},
		{"killed with its container", &scripted{states: []container.ExecInspect{running, exited(137)}, stopped: true}, 137, corral.ErrLost},
		{"exited before its container ended", &scripted{states: []container.ExecInspect{running, exited(1)}, stopped: true}, 1, nil},
		{"forgotten", &scripted{forgotten: true}, 0, corral.ErrLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &scripted{states: []container.ExecInspect{running}, stopped: test.engine.stopped}
			x, err := s.serve(t).Exec(t.Context(), "box", engine.ExecSpec{Args: []string{"prog"}})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			s.mu.Lock()
			s.states, s.unanswered, s.forgotten = test.engine.states, test.engine.unanswered, test.engine.forgotten
			s.mu.Unlock()
			if code, err := x.Result(t.Context()); code != test.code || !errors.Is(err, test.err) {
				t.Errorf("%d, %v", code, err)
			}
		})
	}
}

func TestExecResultIsCancelled(t *testing.T) {
	x, err := (&scripted{states: []container.ExecInspect{running}}).serve(t).Exec(t.Context(), "box", engine.ExecSpec{Args: []string{"prog"}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := x.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}
