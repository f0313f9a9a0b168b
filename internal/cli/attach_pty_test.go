//go:build linux

package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// A testGateway is one that a test runs and kills.
type testGateway struct {
	t   *testing.T
	env []string
	cmd *exec.Cmd
	log bytes.Buffer
}

// newGateway starts one, with further variables.
func newGateway(t *testing.T, env ...string) *testGateway {
	t.Helper()
	g := &testGateway{t: t, env: append([]string{
		"CORRAL_STATE_DIR=" + filepath.Join(testdir.New(t), "state"), "CORRAL_WARDEN=" + wardenbintest.Build(t),
		"SHELL=/bin/sh", "GORACE=" + raceOptions, "DOCKER_HOST=unix:///nonexistent/docker.sock",
	}, env...)}
	g.start()
	t.Cleanup(g.kill)
	return g
}

func (g *testGateway) start() {
	g.t.Helper()
	g.cmd = g.command("gateway")
	g.cmd.Stdout, g.cmd.Stderr = &g.log, &g.log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	for deadline := time.Now().Add(eventuallyWithin); g.command("gateway", "status").Run() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.kill()
			g.t.Fatalf("the gateway is not ready: %s", &g.log)
		}
	}
}

func (g *testGateway) kill() {
	_ = g.cmd.Process.Kill() // it may be gone
	_ = g.cmd.Wait()
}

func (g *testGateway) command(args ...string) *exec.Cmd {
	g.t.Helper()
	program, err := exec.LookPath("corral")
	if err != nil {
		g.t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), g.env...)
	return cmd
}

// corral runs corral to its end, and returns what it printed.
func (g *testGateway) corral(args ...string) string {
	g.t.Helper()
	out, err := g.command(args...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("corral %q: %v: %s", args, err, out)
	}
	return string(out)
}

// A trap that runs ends a read.
const askAndAnswer = `stty -echo; stty size; trap 'stty size' WINCH; while :; do read x || continue; echo "<$x>"; test "$x" = bye && exit 5; done`

// repl starts a session on a terminal, and waits until it knows its size.
func (g *testGateway) repl() {
	g.t.Helper()
	g.corral("exec", "-q", "--background", "--pty", "--id", "repl", askAndAnswer)
	for deadline := time.Now().Add(eventuallyWithin); !strings.Contains(g.corral("logs", "repl"), "30 120"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatal("the session says nothing")
		}
	}
}

func TestPTYAttach(t *testing.T) {
	g := newGateway(t)
	g.repl()

	// What was there is shown, the size is ours now, and what is typed arrives.
	c := onConsoleWith(t, g.env, "attach", "repl")
	c.expect(`attached to repl; ctrl-p,ctrl-q detaches\r\n`)
	c.expect("30 120\r\n")
	c.expect("25 81\r\n")
	if !c.raw() {
		t.Error("the terminal is not raw")
	}
	c.send("one\r")
	c.expect("<one>\r\n")
	c.resize(33, 99)
	c.expect("33 99\r\n")

	// The gateway is killed, and started again: the terminal goes on, and what
	// is typed meanwhile is not lost.
	g.kill()
	time.Sleep(200 * time.Millisecond) // until the connection is seen to be cut
	c.send("two\r")
	g.start()
	c.expect("<two>\r\n")

	// Detached: the terminal is as it was, the session goes on, and a key that
	// might have been one of those was passed on.
	c.send("\x10three\r")
	c.expect("<\x10three>\r\n")
	c.send("\x10\x11")
	c.expect("\r\ndetached from repl, which goes on\r\n")
	c.wait(0)
	if n := strings.Count(c.screen(), "<one>"); n != 1 {
		t.Errorf("output was shown %d times: %q", n, c.screen())
	}

	// A second terminal sees the end of it; the exit code is the command's.
	c = onConsoleWith(t, g.env, "attach", "--detach-keys", "ctrl-a,d", "--tail", "1", "rep")
	c.expect("attached to repl; ctrl-a,d detaches\r\n")
	c.send("\x01\x10bye\r")
	c.expect("<\x01\x10bye>\r\n")
	c.send("bye\r")
	c.wait(5)
	if strings.Contains(c.screen(), "<one>") {
		t.Errorf("--tail 1 showed more: %q", c.screen())
	}
}

// A signal to corral detaches, and puts the terminal back.
func TestPTYAttachSignalled(t *testing.T) {
	g := newGateway(t)
	g.repl()
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGHUP} {
		c := onConsoleWith(t, g.env, "attach", "-q", "repl")
		c.expect("30 120\r\n")
		c.expect("25 81\r\n")
		c.signal(s)
		c.wait(0)
	}
	if out := g.corral("ps", "-q"); out != "repl\n" {
		t.Errorf("running: %q", out)
	}
}

// A session without a terminal is typed at by the line, and Ctrl-C detaches.
func TestConsoleAttach(t *testing.T) {
	g := newGateway(t)
	g.corral("exec", "-q", "--background", "--stdin", "--id", "cat", "tr a-z A-Z")
	c := onConsoleWith(t, g.env, "attach", "cat")
	c.expect("attached to cat; Ctrl-C detaches\r\n")
	if c.raw() {
		t.Error("the terminal is raw")
	}
	c.send("\x03")
	c.expect("detached from cat, which goes on\r\n")
	c.wait(0)
	c = onConsoleWith(t, g.env, "attach", "-q", "cat")
	c.send("line\r\x04")
	c.expect("LINE")
	c.wait(0)
}

// corral exec --pty is on a gateway's terminal as it is on one of its own.
func TestPTYExecByGateway(t *testing.T) {
	g := newGateway(t)
	c := onConsoleWith(t, g.env, "exec", "-q", "--pty", `stty -echo; stty size; trap 'stty size' WINCH; read x; echo "<$x>"; until read y; do :; done; exit 5`)
	c.expect("25 81\r\n")
	c.send("typed\r")
	c.expect("<typed>\r\n")
	g.kill()
	g.start()
	c.resize(33, 99)
	c.send("\r")
	c.wait(5)
	if out := g.corral("ps", "-a", "-q"); out != "" {
		t.Errorf("it is still known: %q", out)
	}
}

// What doctor finds is coloured on a terminal, unless that is not wanted.
func TestConsoleDoctor(t *testing.T) {
	g := newGateway(t)
	g.env = append(g.env, "DOCKER_HOST=unix:///nonexistent/docker.sock")
	c := onConsoleWith(t, append(g.env, "TERM=xterm", "NO_COLOR="), "doctor")
	c.wait(1)
	if !strings.Contains(c.screen(), "\x1b[32mok\x1b[m    state-dir") {
		t.Errorf("no colours: %q", c.screen())
	}
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		c = onConsoleWith(t, append(g.env, env), "doctor")
		c.wait(1)
		if strings.Contains(c.screen(), "\x1b[") || !strings.Contains(c.screen(), "ok    state-dir") {
			t.Errorf("%s: %q", env, c.screen())
		}
	}
}

// The table of sessions fits the terminal, and is coloured there.
func TestConsoleTable(t *testing.T) {
	g := newGateway(t)
	g.corral("exec", "-q", "--background", "--id", "a-session-with-a-long-name", "true "+strings.Repeat("word ", 40))
	g.corral("wait", "a-session-with-a-long-name")
	c := onConsoleWith(t, append(g.env, "TERM=xterm", "NO_COLOR="), "ps", "-a")
	c.wait(0)
	if !strings.Contains(c.screen(), "\x1b[2mexit 0\x1b[m") {
		t.Errorf("no colours: %q", c.screen())
	}
	c = onConsoleWith(t, append(g.env, "NO_COLOR=1"), "ps", "-a")
	c.wait(0)
	for line := range strings.SplitSeq(strings.TrimSpace(c.screen()), "\r\n") {
		if len([]rune(line)) > 81 || strings.Contains(line, "\x1b") {
			t.Errorf("a line of %d characters: %q", len([]rune(line)), line)
		}
	}
}

// What a command writes to the clipboard or the title of a terminal stays in its log,
// unless it is asked for. In a pipe every byte is as it was.
func TestConsoleReachesNoClipboard(t *testing.T) {
	g := newGateway(t)
	const text = `begin\033]52;c;aGk=\007\033]0;title\033\\\033P$qm\033\\\033[21t \033[31mred\033[0m end`
	g.corral("exec", "-q", "--background", "--id", "evil", `printf '`+text+`\n'; sleep 60`)
	g.corral("exec", "-q", "--background", "--pty", "--id", "evilpty", `printf '`+text+`\n'; sleep 60`)
	raw := "begin\x1b]52;c;aGk=\a\x1b]0;title\x1b\\\x1bP$qm\x1b\\\x1b[21t \x1b[31mred\x1b[0m end"
	for deadline := time.Now().Add(eventuallyWithin); !strings.Contains(g.corral("logs", "evilpty"), " end\r\n") || g.corral("logs", "evil") != raw+"\n"; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in a pipe: %q", g.corral("logs", "evil"))
		}
	}
	for _, args := range [][]string{{"logs", "evil"}, {"logs", "evilpty"}, {"attach", "-q", "evil"}, {"attach", "-q", "--tail", "5", "evilpty"}} {
		c := onConsoleWith(t, g.env, args...)
		c.expect(regexp.QuoteMeta("begin \x1b[31mred\x1b[0m end") + "\r+\n")
		if screen := c.screen(); strings.Contains(screen, "aGk=") || strings.Contains(screen, "title") || strings.Contains(screen, "$q") || strings.Contains(screen, "21t") {
			t.Errorf("%q: %q", args, screen)
		}
		if args[0] == "attach" {
			c.signal(unix.SIGTERM)
		}
		c.wait(0)
	}
	c := onConsoleWith(t, g.env, "logs", "--raw", "evil")
	c.expect(regexp.QuoteMeta(raw) + "\r+\n")
	c.wait(0)
	c = onConsoleWith(t, g.env, "attach", "-q", "--raw", "evil")
	c.expect(regexp.QuoteMeta(raw) + "\r+\n")
	c.signal(unix.SIGTERM)
	c.wait(0)
}
