package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway"
	"github.com/corral-exec/corral/gateway/listen"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/foreground"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// oneSandbox is the sandbox "box" of the agent "me".
type oneSandbox struct{ gateway.Sandboxes }

func (oneSandbox) Get(_ context.Context, name string) (api.Sandbox, error) {
	if name != "box" {
		return api.Sandbox{}, corral.Errorf(corral.ErrNotFound, "", "there is no sandbox %q", name)
	}
	return api.Sandbox{Name: "box", Agent: "me"}, nil
}

// dialHere connects to ports of this machine, on behalf of one agent, by one name.
func dialHere(of, by string) func(ctx context.Context, agent, name string, port int) (net.Conn, error) {
	return func(ctx context.Context, agent, name string, port int) (net.Conn, error) {
		if agent != of || name != by {
			return nil, corral.Errorf(corral.ErrNotFound, "", "the agent %s has no %s", agent, name)
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return nil, corral.Errorf(corral.ErrNotListening, "start it", "nothing listens on port %d", port)
		}
		return conn, nil
	}
}

// gatewayWithPorts serves on the socket of a state directory. Ports of the sandbox,
// and of the node "builder", are those of this machine. All agents have files there.
func gatewayWithPorts(t *testing.T) (state string) {
	t.Helper()
	state = testdir.New(t)
	own := func(_ context.Context, agent, name string) (files.FS, error) {
		dir := filepath.Join(state, agent+" "+name)
		return files.Directory{Path: dir, Root: "/workspace"}, os.MkdirAll(dir, 0o700)
	}
	sessions, err := session.Open(t.Context(), session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return nil, io.EOF },
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := gateway.New(gateway.Config{Sessions: sessions, Sandboxes: oneSandbox{}, Files: own,
		DialPort: dialHere("me", "box"), DialNode: dialHere("main", "builder")})
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen.Unix(filepath.Join(state, api.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := sessions.Close(); err != nil {
			t.Error(err)
		}
	})
	return state
}

func TestSandboxForward(t *testing.T) {
	testForward(t, func(f foreground.Forward) string { return f.Sandbox }, "sandbox", "forward", "--json", "box")
}

func TestNodesForward(t *testing.T) {
	testForward(t, func(f foreground.Forward) string { return f.Node }, "nodes", "forward", "--json", "builder")
}

func testForward(t *testing.T, name func(foreground.Forward) string, args ...string) {
	state := gatewayWithPorts(t)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				text, _ := io.ReadAll(conn)
				_, _ = conn.Write([]byte("echo " + string(text)))
			}()
		}
	}()
	port := echo.Addr().(*net.TCPAddr).Port

	out, in := io.Pipe()
	errs := &logtest.Log{}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	a := &app.App{Version: "v1", Stdin: null, Stdout: in, Stderr: errs, Environ: []string{"HOME=" + state, "CORRAL_STATE_DIR=" + state}, Backends: (&fakeMachine{}).backends()}
	ctx, interrupt := context.WithCancelCause(t.Context())
	code := make(chan int, 1)
	go func() {
		code <- commands{a}.run(ctx, append(args, fmt.Sprint(port, ":0"), "1:0"))
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	var list [2]foreground.Forward
	for i := range list {
		if !lines.Scan() {
			t.Fatalf("it says nothing: %s", errs)
		}
		if err := json.Unmarshal(lines.Bytes(), &list[i]); err != nil || name(list[i]) != args[len(args)-1] {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
	}
	if list[0].Port != port || list[1].Port != 1 || !strings.HasPrefix(list[0].Address, "127.0.0.1:") {
		t.Errorf("%+v", list)
	}
	say := func(address, text string) (string, error) {
		conn, err := net.Dial("tcp", address)
		if err != nil { // what nothing listens on may be reset before Dial has returned
			return "", err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			return "", err
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(conn)
		return string(got), err
	}
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			text := fmt.Sprint("hello ", i)
			if got, err := say(list[0].Address, text); err != nil || got != "echo "+text {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	if got, _ := say(list[1].Address, "x"); got != "" {
		t.Errorf("port 1 says %q", got)
	}
	for end := time.Now().Add(5 * time.Second); !strings.Contains(errs.String(), "warning: nothing listens on port 1 (start it)"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not warn: %s", errs)
		}
	}
	// A connection that is open does not keep it.
	open, err := net.Dial("tcp", list[0].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	interrupt(foreground.Interruption{Signal: corral.SIGINT})
	select {
	case got := <-code:
		if got != 0 {
			t.Errorf("exit code %d: %s", got, errs)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

func TestSandboxForwardErrors(t *testing.T) {
	state := gatewayWithPorts(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"box", 2, "at least one port"},
		{"box 0", 2, "is no port to forward"},
		{"box +80", 2, "is no port to forward"},
		{"box 8080:-1", 2, "is no port to forward"},
		{"box 80:65536", 2, "8080:80"},
		{"box x", 2, `"x" is no port`},
		{"none 80:0", 125, "there is no sandbox"},
		{fmt.Sprint("box 80:", taken.Addr().(*net.TCPAddr).Port), 125, "80:0 takes any that is free"},
	} {
		code, _, stderr := (&fakeMachine{}).run(t, []string{"CORRAL_STATE_DIR=" + state}, append([]string{"sandbox", "forward"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stderr, c.text) {
			t.Errorf("%s: %d, %s", c.args, code, stderr)
		}
	}
	code, _, stderr := (&fakeMachine{}).run(t, nil, "sandbox", "forward", "box", "80:0")
	if code != 125 || !strings.Contains(stderr, "no gateway is running") || !strings.Contains(stderr, "corral gateway") {
		t.Errorf("without a gateway: %d, %s", code, stderr)
	}
}
