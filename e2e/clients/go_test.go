//go:build e2e

package clients_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
)

// A place is what scenarios run against: a gateway whose commands run on this machine, and
// one whose commands run in a sandbox.
type place struct {
	program     string
	host, boxed *gateway
}

var scenarios = []struct {
	name string
	run  func(*testing.T, *place)
}{
	{"start", testStart},
	{"stream", testStream},
	{"exit", testExit},
	{"stdin", testStdin},
	{"terminal", testTerminal},
	{"files", testFiles},
	{"restart", testRestart},
	{"timeout", testTimeout},
	{"kill", testKill},
	{"attach", testAttach},
	{"approvals", testApprovals},
	{"events", testEvents},
	{"agents", testAgents},
	{"wrong-key", testWrongKey},
	{"role", testRole},
	{"quota", testQuota},
	{"sandboxes", testSandboxes},
	{"port", testPort},
	{"gap", testGap},
	{"unicode", testUnicode},
	{"errors", testErrors},
	{"tls", testTLS},
	{"concurrent", testConcurrent},
	{"same-id", testSameID},
	{"sessions", testSessions},
	{"cancel", testCancel},
}

// The scenarios with Go's client.
func TestGo(t *testing.T) {
	enginetest.New(t) // with the image
	p := &place{program: built.Program(t, "cmd/corral")}
	p.host = startGateway(t, p.program)
	p.boxed = startGateway(t, p.program, "--sandbox", "all", "--image", images.Busybox, "--workspace-access", "none")
	t.Cleanup(func() {
		if err := p.boxed.client(client.Options{}).RemoveSandbox(context.Background(), "main"); err != nil {
			t.Error(err)
		}
	})
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) { s.run(t, p) })
	}
	t.Run("ports, and kill -9", func(t *testing.T) { testPortsKilled(t, p) })
}

func begin(t *testing.T, c *client.Client, cmd corral.Command) corral.Process {
	t.Helper()
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// heard reads the log from an offset on: at least n bytes, or to the end if n is negative.
func heard(t *testing.T, p corral.Process, off int64, n int) (stdout, stderr string) {
	t.Helper()
	for n < 0 || len(stdout)+len(stderr) < n {
		c, err := p.Log().Read(t.Context(), off, make([]byte, 64<<10))
		if err == io.EOF {
			return stdout, stderr
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Offset != off {
			t.Fatalf("a gap from %d to %d", off, c.Offset)
		}
		if off = c.Next(); c.Stream == corral.Stderr {
			stderr += string(c.Data)
		} else {
			stdout += string(c.Data)
		}
	}
	return stdout, stderr
}

// output is all of what a command writes to stdout, and its end.
func output(t *testing.T, c *client.Client, cmd corral.Command) (string, corral.Exit) {
	t.Helper()
	p := begin(t, c, cmd)
	exit := ended(t, p)
	stdout, _ := heard(t, p, 0, -1)
	return stdout, exit
}

func ended(t *testing.T, p corral.Process) corral.Exit {
	t.Helper()
	exit, err := p.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

func put(t *testing.T, p corral.Process, text string) {
	t.Helper()
	if n, err := p.Write(t.Context(), []byte(text)); err != nil || n != len(text) {
		t.Fatalf("%d, %v", n, err)
	}
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%.200v, want %.200v", got, want)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v, want %v", err, want)
	}
}

func testStart(t *testing.T, p *place) {
	c := p.host.client(client.Options{})
	q := begin(t, c, corral.Command{Shell: "echo out; echo err >&2; exit 3"})
	equal(t, ended(t, q).Code, 3)
	stdout, stderr := heard(t, q, 0, -1)
	equal(t, stdout+stderr, "out\nerr\n")
	text, _ := output(t, c, corral.Command{Args: []string{"printf", "%s|", "a b", "$HOME"}, Env: map[string]string{"X": "1"}})
	equal(t, text, "a b|$HOME|")
}

func testStream(t *testing.T, p *place) {
	q := begin(t, p.host.client(client.Options{}), corral.Command{Shell: "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three"})
	var got []string
	for off := int64(0); ; {
		c, err := q.Log().Read(t.Context(), off, make([]byte, 100))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		off = c.Next()
		got = append(got, fmt.Sprint(c.Stream, " ", off, " ", string(c.Data)))
	}
	want := []string{fmt.Sprint(corral.Stdout, " 4 one\n"), fmt.Sprint(corral.Stderr, " 8 two\n"), fmt.Sprint(corral.Stdout, " 14 three\n")}
	if !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

func testExit(t *testing.T, p *place) {
	c := p.host.client(client.Options{})
	for _, code := range []int{0, 1, 42, 255} {
		_, exit := output(t, c, corral.Command{Shell: fmt.Sprint("exit ", code)})
		equal(t, exit.Code, code)
	}
	_, exit := output(t, c, corral.Command{Shell: "kill -TERM $$"})
	equal(t, exit.Signal, corral.SIGTERM)
	q := begin(t, c, corral.Command{Shell: "trap 'exit 7' INT; echo ready; while :; do sleep 0.05; done"})
	heard(t, q, 0, 6)
	if err := q.Signal(t.Context(), corral.SIGINT); err != nil {
		t.Fatal(err)
	}
	equal(t, ended(t, q).Code, 7)
}

func testStdin(t *testing.T, p *place) {
	c := p.host.client(client.Options{})
	q := begin(t, c, corral.Command{Shell: "read x; echo got $x; cat", Stdin: true})
	put(t, q, "one\n")
	text, _ := heard(t, q, 0, 8)
	equal(t, text, "got one\n")
	data := strings.Repeat("0123456789abcdef", 1<<16)
	put(t, q, data)
	if err := q.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(t, q)
	text, _ = heard(t, q, 8, -1)
	equal(t, text, data)
	n, err := q.Write(t.Context(), []byte("more"))
	is(t, err, corral.ErrEnded)
	equal(t, n, 0)
}

func testTerminal(t *testing.T, p *place) {
	q := begin(t, p.host.client(client.Options{}), corral.Command{Shell: "stty size; read x; stty size", TTY: &corral.Size{Rows: 10, Cols: 20}})
	text, _ := heard(t, q, 0, 7)
	equal(t, text, "10 20\r\n")
	if err := q.(*client.Process).Resize(t.Context(), corral.Size{Rows: 30, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	put(t, q, "\r")
	ended(t, q)
	if text, _ = heard(t, q, 0, -1); !strings.Contains(text, "30 40") {
		t.Fatalf("%q", text)
	}
}

func testRestart(t *testing.T, p *place) {
	g := startGateway(t, p.program)
	c := g.client(client.Options{Retry: time.Minute})
	output(t, c, corral.Command{Shell: "true"}) // the login shell was asked for PATH
	q := begin(t, c, corral.Command{Shell: "i=0; while [ $i -lt 4000 ]; do echo line $i é€😀; i=$((i+1)); [ $((i % 40)) -ne 0 ] || sleep 0.05; done"})
	var got, want strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&want, "line %d é€😀\n", i)
	}
	kills := 0
	for {
		chunk, err := q.Log().Read(t.Context(), int64(got.Len()), make([]byte, 1000))
		if err == io.EOF {
			break
		}
		if err != nil || chunk.Offset != int64(got.Len()) {
			t.Fatalf("at %d: %d, %v", got.Len(), chunk.Offset, err)
		}
		got.Write(chunk.Data)
		if got.Len() > 20_000*(kills+1) && kills < 2 {
			kills++
			g.kill()
			g.start()
		}
	}
	equal(t, kills, 2)
	equal(t, got.String() == want.String(), true)
	equal(t, ended(t, q).Code, 0)
}

func testTimeout(t *testing.T, p *place) {
	text, exit := output(t, p.host.client(client.Options{}), corral.Command{Shell: "echo begun; sleep 60", Timeout: 500 * time.Millisecond, Grace: 100 * time.Millisecond})
	equal(t, text, "begun\n")
	equal(t, exit.Reason, corral.ReasonTimeout)
}

func testKill(t *testing.T, p *place) {
	q := begin(t, p.host.client(client.Options{}), corral.Command{Shell: "sleep 60 & echo $!; wait"})
	text, _ := heard(t, q, 0, 2)
	child, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || child < 2 {
		t.Fatalf("%q: %v", text, err)
	}
	st, err := q.(*client.Process).Kill(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, st.Reason, session.ReasonKilled)
	for range 100 { // it was killed, and is reaped a moment later
		if _, err = os.Stat(fmt.Sprint("/proc/", child)); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	is(t, err, fs.ErrNotExist)
}

func testAttach(t *testing.T, p *place) {
	begin(t, p.host.client(client.Options{}), corral.Command{ID: "behind", Shell: "echo one; read x; echo got $x", Stdin: true})
	q, err := p.host.client(client.Options{}).Attach(t.Context(), "behind")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := heard(t, q, 0, 4)
	equal(t, text, "one\n")
	put(t, q, "two\n")
	text, _ = heard(t, q, 4, -1)
	equal(t, text, "got two\n")
}

func testApprovals(t *testing.T, p *place) {
	c := p.host.client(client.Options{})
	path := filepath.Join(p.host.work, "approved")
	ask := func(command string) string {
		_, err := c.Start(t.Context(), corral.Command{Shell: command, Host: corral.HostGateway, Security: "allowlist", Ask: "always"})
		rec, ok := client.PendingApproval(err)
		if !ok {
			t.Fatal(err)
		}
		return rec.ID
	}
	allowed, denied := ask("echo yes >"+path), ask("echo no >"+path)
	pending, err := c.Approvals(t.Context(), approval.Filter{State: approval.Pending})
	if err != nil || len(pending) != 2 {
		t.Fatalf("%+v, %v", pending, err)
	}
	rec, err := c.Answer(t.Context(), allowed, approval.Answer{Decision: approval.AllowOnce, By: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.Attach(t.Context(), rec.CommandID)
	for end := time.Now().Add(10 * time.Second); errors.Is(err, corral.ErrNotFound) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		q, err = c.Attach(t.Context(), rec.CommandID) // it is started after the answer
	}
	if err != nil {
		t.Fatal(err)
	}
	ended(t, q)
	if rec, err = c.Answer(t.Context(), denied, approval.Answer{Decision: approval.Deny, By: "alice"}); err != nil {
		t.Fatal(err)
	}
	equal(t, rec.State, approval.Denied)
	_, err = c.Answer(t.Context(), denied, approval.Answer{Decision: approval.AllowOnce, By: "bob"})
	is(t, err, corral.ErrConflict)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, string(text), "yes\n")
}

func testEvents(t *testing.T, p *place) {
	c, other := p.host.client(client.Options{}), p.host.client(client.Options{Agent: "other"})
	mine, err := c.Begin(t.Context(), corral.Command{Shell: "echo done"}, true)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Begin(t.Context(), corral.Command{Shell: "echo theirs"}, true)
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Events(t.Context(), client.EventOptions{}) {
		if err != nil || e.SessionID == theirs.Info().ID {
			t.Fatalf("%+v, %v", e, err)
		}
		if e.SessionID == mine.Info().ID {
			equal(t, e.Type, session.EventFinished)
			equal(t, e.Tail, "done")
			break
		}
	}
	for e, err := range other.Events(t.Context(), client.EventOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		equal(t, e.SessionID, theirs.Info().ID)
		break
	}
}

func testAgents(t *testing.T, p *place) {
	begin(t, p.host.client(client.Options{}), corral.Command{ID: "mine", Shell: "true"})
	other := p.host.client(client.Options{Agent: "somebody"})
	_, err := other.Attach(t.Context(), "mine")
	is(t, err, corral.ErrNotFound)
	for all, want := range map[bool]bool{false: false, true: true} {
		list, err := other.Sessions(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, slices.ContainsFunc(list, func(st session.Status) bool { return st.ID == "mine" }), want)
	}
}

func testGap(t *testing.T, p *place) {
	q := begin(t, p.host.client(client.Options{}), corral.Command{Shell: "head -c 3000000 /dev/zero", Log: corral.LogLimit{Head: 1000, Tail: 2000}})
	ended(t, q)
	stat, err := q.Log().Stat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, stat.Size, 3_000_000)
	var off, kept, left int64
	for {
		c, err := q.Log().Read(t.Context(), off, make([]byte, 64<<10))
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		left += c.Offset - off
		kept += int64(len(c.Data))
		off = c.Next()
	}
	equal(t, kept+left, 3_000_000)
	equal(t, left, stat.GapEnd-stat.GapStart)
	equal(t, left > 2_900_000, true)
}

func testUnicode(t *testing.T, p *place) {
	const text = "\ufeffaé€😀 <&>\n"
	q := begin(t, p.host.client(client.Options{}), corral.Command{Args: []string{"printf", "%s", text}})
	ended(t, q)
	for off := range len(text) + 1 {
		got, _ := heard(t, q, int64(off), -1)
		equal(t, got, text[off:])
		equal(t, utf8.ValidString(got), utf8.RuneStart((text + "x")[off]))
	}
}

func testErrors(t *testing.T, p *place) {
	c := p.host.client(client.Options{})
	_, err := c.Attach(t.Context(), "there-is-none")
	is(t, err, corral.ErrNotFound)
	equal(t, corral.Hint(err) != "", true)
	_, err = c.Start(t.Context(), corral.Command{Shell: "true", Dir: "/there/is/none"})
	is(t, err, corral.ErrDir)
	_, err = c.Start(t.Context(), corral.Command{})
	is(t, err, corral.ErrInvalid)
	nobody, err := client.New(client.Options{Socket: filepath.Join(p.host.state, "none.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	_, err = nobody.Start(t.Context(), corral.Command{Shell: "true"})
	is(t, err, corral.ErrUnavailable)
	equal(t, strings.Contains(corral.Hint(err), "corral gateway"), true)
}

func testConcurrent(t *testing.T, p *place) {
	c := p.host.client(client.Options{})
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			q, err := c.Start(t.Context(), corral.Command{Shell: fmt.Sprint("echo ", n)})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := q.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			chunk, err := q.Log().Read(t.Context(), 0, make([]byte, 100))
			if err != nil || string(chunk.Data) != fmt.Sprintln(n) {
				t.Errorf("%d: %q, %v", n, chunk.Data, err)
			}
		})
	}
	wg.Wait()
}

func testSameID(t *testing.T, p *place) {
	c, path := p.host.client(client.Options{}), filepath.Join(p.host.work, "once")
	for range 2 {
		text, _ := output(t, c, corral.Command{ID: "once", Shell: fmt.Sprintf("echo x >>%s; cat %[1]s", path)})
		equal(t, text, "x\n")
	}
	_, err := c.Start(t.Context(), corral.Command{ID: "once", Shell: "echo other"})
	is(t, err, corral.ErrConflict)
}

func testSessions(t *testing.T, p *place) {
	c := p.host.client(client.Options{})
	q := begin(t, c, corral.Command{ID: "sleeper", Shell: "sleep 60"}).(*client.Process)
	listed := func() bool {
		list, err := c.Sessions(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list, func(st session.Status) bool { return st.ID == "sleeper" })
	}
	equal(t, listed(), true)
	is(t, q.Remove(t.Context()), corral.ErrRunning)
	if err := q.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := q.Status(t.Context())
	is(t, err, corral.ErrNotFound)
	equal(t, listed(), false)
}

func testCancel(t *testing.T, p *place) {
	q := begin(t, p.host.client(client.Options{}), corral.Command{Shell: "echo one; sleep 60"}).(*client.Process)
	for _, wait := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := q.Wait(ctx); return err },
		func(ctx context.Context) error { _, err := q.Log().Read(ctx, 4, make([]byte, 1)); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		started := time.Now()
		is(t, wait(ctx), context.DeadlineExceeded)
		cancel()
		equal(t, time.Since(started) < 2*time.Second, true)
	}
	st, err := q.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, st.State, session.Running)
}
