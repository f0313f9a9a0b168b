//go:build linux

package cli

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/test/logtest"
)

// A console is a terminal with corral on it.
type console struct {
	t    *testing.T
	tty  *os.File // ours
	peer *os.File // corral's, kept to look at its settings
	cmd  *exec.Cmd

	out logtest.Log
	end chan struct{}
}

func onConsole(t *testing.T, args ...string) *console {
	t.Helper()
	return onConsoleWith(t, []string{"CORRAL_STATE_DIR=" + t.TempDir()}, args...)
}

func onConsoleWith(t *testing.T, env []string, args ...string) *console {
	t.Helper()
	tty, peer, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, tty: tty, peer: peer, end: make(chan struct{})}
	c.resize(25, 81)
	program, err := exec.LookPath("corral")
	if err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = peer, peer, peer
	c.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	c.cmd.Env = append(append(os.Environ(), "SHELL=/bin/sh", "GORACE="+raceOptions, "TMPDIR="+t.TempDir()), env...)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.end)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			_, _ = c.out.Write(buf[:n]) // in memory
			if err != nil {
				return // EIO: nobody has the other side any more
			}
		}
	}()
	return c
}

func (c *console) resize(rows, cols uint16) {
	c.t.Helper()
	if err := pty.Setsize(c.tty, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *console) screen() string { return c.out.String() }

// expect waits until the screen shows pattern.
func (c *console) expect(pattern string) {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(15 * time.Second); !re.MatchString(c.screen()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = c.cmd.Process.Kill() // the test fails anyway
			c.t.Fatalf("no %q on the screen: %q", pattern, c.screen())
		}
	}
}

func (c *console) send(keys string) {
	c.t.Helper()
	if _, err := io.WriteString(c.tty, keys); err != nil {
		c.t.Fatal(err)
	}
}

// raw reports whether corral's side passes keys on as they are.
func (c *console) raw() bool {
	c.t.Helper()
	s, err := unix.IoctlGetTermios(int(c.peer.Fd()), unix.TCGETS)
	if err != nil {
		c.t.Fatal(err)
	}
	return s.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0
}

// wait waits for corral's end, and checks that the terminal is as it was.
func (c *console) wait(code int) {
	c.t.Helper()
	timer := time.AfterFunc(20*time.Second, func() { _ = c.cmd.Process.Kill() }) // it is gone otherwise
	defer timer.Stop()
	_ = c.cmd.Wait() // the exit code says it
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("exit code %d, want %d; screen: %q", got, code, c.screen())
	}
	if c.raw() {
		c.t.Error("the terminal was left raw")
	}
	c.peer.Close()
	<-c.end
	c.tty.Close()
}

func TestPTY(t *testing.T) {
	c := onConsole(t, "exec", "-q", "--pty", `stty -echo; stty size; read x; echo "<$x>"; exit 5`)
	c.expect("25 81\r\n")
	if !c.raw() {
		t.Error("the terminal is not raw")
	}
	c.send("typed\r")
	c.expect("<typed>\r\n")
	c.wait(5)
	if strings.Contains(c.screen(), "typed\r\n<") {
		t.Errorf("it was echoed twice or in spite of stty: %q", c.screen())
	}
}

// Ctrl-C is a key: what it does is up to the command's terminal.
func TestPTYInterrupt(t *testing.T) {
	// A shell that is about to start a program hears of a signal when that has
	// ended, so it is a short one.
	c := onConsole(t, "exec", "-q", "--pty", `n=0; trap 'echo caught; n=$((n+1))' INT; echo ready; while [ $n -lt 3 ]; do sleep 0.1; done; exit 6`)
	for i := 1; i <= 3; i++ {
		c.expect("ready(.|\n)*" + strings.Repeat("caught(.|\n)*", i-1) + "$")
		c.send("\x03")
	}
	c.expect("caught(.|\n)*caught(.|\n)*caught")
	c.wait(6)
}

func TestPTYResize(t *testing.T) {
	c := onConsole(t, "exec", "-q", "--pty", `trap 'stty size' WINCH; echo ready; while :; do read -r x && exit 0; done`)
	c.expect("ready")
	c.resize(33, 99)
	c.expect("33 99\r\n")
	c.send("\r")
	c.wait(0)
}

// However it ends, the terminal is as it was.
func TestPTYRestored(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		do   func(*console)
		code int
	}{
		"time-out":  {[]string{"--timeout", "0.5", "echo ready; sleep 31.9"}, func(*console) {}, 124},
		"killed":    {[]string{"echo ready; sleep 0.3; kill -9 $$"}, func(*console) {}, 137},
		"SIGTERM":   {[]string{"echo ready; sleep 31.9"}, func(c *console) { c.signal(unix.SIGTERM) }, 143},
		"SIGHUP":    {[]string{"echo ready; sleep 31.9"}, func(c *console) { c.signal(unix.SIGHUP) }, 129},
		"stubborn":  {[]string{`trap "" TERM; echo ready; while :; do sleep 0.1; done`}, func(c *console) { c.signal(unix.SIGTERM); time.Sleep(200 * time.Millisecond); c.signal(unix.SIGTERM) }, 137},
		"not found": {[]string{"--", "no-such-program"}, nil, 127},
		"refused":   {[]string{"--env", "PATH=/x", "true"}, nil, 125},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := onConsole(t, append([]string{"exec", "-q", "--pty"}, tc.args...)...)
			if tc.do != nil {
				c.expect("ready")
				if !c.raw() {
					t.Error("the terminal is not raw")
				}
				tc.do(c)
			}
			c.wait(tc.code)
		})
	}
}

func (c *console) signal(s unix.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Error(err)
	}
}

// Without --pty the terminal is left alone, Ctrl-C is a signal, and keys are
// not taken from whoever reads them next.
func TestConsoleWithoutPTY(t *testing.T) {
	c := onConsole(t, "exec", "-q", "cat; echo ready; sleep 31.9")
	c.expect("ready")
	if c.raw() {
		t.Error("the terminal is raw")
	}
	c.send("\x03")
	c.wait(130)
}

func TestConsoleStdin(t *testing.T) {
	c := onConsole(t, "exec", "-q", "--stdin", "echo ready; tr a-z A-Z")
	c.expect("ready")
	c.send("line\r\x04")
	c.expect("LINE")
	c.wait(0)
}

func TestHelpFitsTerminal(t *testing.T) {
	c := onConsole(t, "exec", "--help")
	c.wait(0)
	for line := range strings.SplitSeq(c.screen(), "\r\n") {
		if len([]rune(line)) > 82 {
			t.Errorf("a line has %d characters: %s", len(line), line)
		}
	}
}

// On a terminal progress is bars, which are gone afterwards.
func TestProgressBars(t *testing.T) {
	tty, peer, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 25, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	out, end := &logtest.Log{}, make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(out, tty) // until nobody has the other side
	}()
	a := &app.App{Stderr: peer}
	p := a.Progress()
	p.Show(images.Event{Phase: images.PhasePull, Image: "img", Message: "pulling"})
	for i := range int64(5) {
		p.Show(images.Event{Phase: images.PhasePull, Image: "img", Item: "layer", Current: i << 20, Total: 8 << 20})
		time.Sleep(50 * time.Millisecond)
	}
	p.Show(images.Event{Phase: images.PhasePull, Image: "img", Message: "mind this", Warning: true})
	p.Show(images.Event{Phase: images.PhaseImport, Image: "img", Current: 1, Total: 1})
	p.Finish()
	p.Finish()
	peer.Close()
	<-end
	tty.Close()
	for _, want := range []string{"img: pulling", "layer", "8.0 MiB", "warning: Mind this.\r\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}
