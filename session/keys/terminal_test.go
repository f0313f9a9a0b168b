//go:build linux

package keys

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A terminal is one with a program on it.
type terminal struct {
	t   *testing.T
	pty *os.File
	cmd *exec.Cmd
	end chan struct{} // closed when the program's output has ended

	mu       sync.Mutex
	output   strings.Builder
	detector Detector
}

func onTerminal(t *testing.T, dir, name string, args ...string) *terminal {
	t.Helper()
	c := &terminal{t: t, cmd: exec.Command(name, args...), end: make(chan struct{})}
	c.cmd.Dir = dir
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TERM=xterm", "LC_ALL=C.UTF-8", "HOME=" + dir, "PS1=$ ", "HISTFILE=", "INPUTRC=/dev/null"}
	var err error
	if c.pty, err = pty.StartWithSize(c.cmd, &pty.Winsize{Rows: 24, Cols: 200}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.end)
		buf := make([]byte, 4096)
		for {
			n, err := c.pty.Read(buf)
			c.mu.Lock()
			c.output.Write(buf[:n])
			_, _ = c.detector.Write(buf[:n]) // it never fails
			c.mu.Unlock()
			if err != nil {
				return // EIO: nobody has the other side any more
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.cmd.Wait()         // killed
		c.pty.Close()
		<-c.end
	})
	return c
}

// expect waits until the output from a position on holds text, and returns
// the position after it.
func (c *terminal) expect(from int, text string) int {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		output := c.shown()
		if i := strings.Index(output[from:], text); i >= 0 {
			return from + i + len(text)
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("waited for %q in %q", text, output[from:])
		}
		time.Sleep(time.Millisecond)
	}
}

// interrupt presses C-c for another prompt, which a readline that is interrupted while
// it draws does not always show.
func (c *terminal) interrupt(from int) int {
	c.t.Helper()
	c.press("C-c")
	from = c.expect(from, "^C")
	for deadline := time.Now().Add(2 * time.Second); !strings.Contains(c.shown()[from:], "$ "); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.press("Enter")
			break
		}
	}
	return c.expect(from, "$ ")
}

func (c *terminal) shown() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

func (c *terminal) modes() (CursorMode, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.detector.Cursor(), c.detector.BracketedPaste()
}

func (c *terminal) write(data []byte) {
	c.t.Helper()
	if _, err := c.pty.Write(data); err != nil {
		c.t.Fatal(err)
	}
}

// press sends keys as the program's modes want them.
func (c *terminal) press(names ...string) {
	c.t.Helper()
	mode, _ := c.modes()
	if mode == CursorUnknown {
		mode = CursorNormal
	}
	got, err := Encode(Request{Keys: names}, Options{Cursor: mode})
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(got.Data)
}

// A program in raw mode reads the bytes that the keys are said to send.
func TestRawProgramReadsKeys(t *testing.T) {
	c := onTerminal(t, t.TempDir(), "sh", "-c", "stty raw -echo; printf ready; exec cat -v")
	at := c.expect(0, "ready")
	for _, tc := range []struct{ keys, want string }{
		{"C-c", "^C"}, {"C-z", "^Z"}, {"C-d", "^D"}, {"C-\\", "^\\"}, {"C-s", "^S"}, {"C-Space", "^@"}, {"C-?", "^?"},
		{"Enter", "^M"}, {"BSpace", "^?"}, {"Escape", "^["}, {"Tab", "\t"}, {"S-Tab", "^[[Z"},
		{"M-x", "^[x"}, {"C-M-x", "^[^X"}, {"Up", "^[[A"}, {"C-Right", "^[[1;5C"}, {"Home", "^[[1~"}, {"F5", "^[[15~"}, {"KP0", "^[Op"},
		{"é", "M-CM-)"},
	} {
		c.press("<", tc.keys, ">")
		at = c.expect(at, "<"+tc.want+">")
	}
}

// The terminal driver takes the keys that it acts on.
func TestDriverTakesKeys(t *testing.T) {
	c := onTerminal(t, t.TempDir(), "sh", "-c", "trap 'echo interrupted' INT; echo ready; cat; echo status $?; cat; echo end")
	at := c.expect(0, "ready")
	c.press("l", "i", "m", "e", "BSpace", "e", "Enter")
	at = c.expect(at, "\nlime\r\n") // the echo, and what cat read
	c.press("x", "C-u", "C-c")
	at = c.expect(at, "interrupted")
	c.press("C-d")
	c.expect(at, "end")
}

// Readline obeys keys for editing, its history and its search.
func TestReadlineObeysKeys(t *testing.T) {
	c := onTerminal(t, t.TempDir(), "bash", "--norc", "--noprofile", "-i")
	at := c.expect(0, "$ ")
	c.press("echo [ab", "Left", "X", "C-e", "c]", "C-a", "M-f", "C-Right", "DC", "Enter")
	at = c.expect(at, "\r[aXbc\r\n")
	at = c.expect(at, "$ ")
	c.press("Up", "BSpace", "BSpace", "M-b", "M-u", "C-e", "+", "]", "Enter")
	at = c.expect(at, "\r[AX+]\r\n")
	at = c.expect(at, "$ ")
	c.press("nonsense", "C-u", "C-r", "aX", "Enter")
	at = c.expect(at, "\r[aXbc\r\n")
	at = c.expect(at, "$ ")
	c.press("typed in vain")
	at = c.interrupt(c.expect(at, "typed in vain"))
	c.press("exit", "Enter")
	c.expect(at, "exit")
	<-c.end
}

// What is pasted is not run before Enter, whatever it holds.
func TestReadlineKeepsPasteTogether(t *testing.T) {
	dir := t.TempDir()
	c := onTerminal(t, dir, "bash", "--norc", "--noprofile", "-i")
	at := c.expect(0, "$ ")
	if _, paste := c.modes(); !paste {
		t.Fatalf("bash did not ask for brackets: %q", c.shown())
	}
	for _, text := range []string{
		"true\ntouch broken-out\n: tail",
		"true\x1b[201~\rtouch broken-out\r: tail",
		"true\x1b[20\x1b[201~1~\rtouch broken-out\r: tail",
		"true\x03touch broken-out\n: tail",
		"true\x1b[201\x7f~\x15touch broken-out\r: tail",
	} {
		data, err := Paste(text, PasteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.write(data)
		at = c.expect(at, ": tail")
		at = c.interrupt(at)
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || found != nil {
		t.Errorf("pasted text was run: %q, %v", found, err)
	}

	data, err := Paste("echo one\necho two", PasteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.write(data)
	at = c.expect(at, "echo two")
	c.press("Enter")
	at = c.expect(at, "\rone\r\ntwo\r\n")
	at = c.expect(at, "$ ")

	data, err = Paste("echo plain\n", PasteOptions{Plain: true, CR: true})
	if err != nil {
		t.Fatal(err)
	}
	c.write(data)
	c.expect(at, "\rplain\r\n")
}

func tput(t *testing.T, terminal string, args ...string) string {
	t.Helper()
	out, err := exec.Command("tput", append([]string{"-T", terminal}, args...)...).Output()
	if err != nil {
		t.Fatalf("tput -T %s %s: %v", terminal, args, err)
	}
	return string(out)
}

// The system's own descriptions of terminals agree.
func TestTerminfoAgrees(t *testing.T) {
	application := Options{Cursor: CursorApplication}
	check := func(terminal, capability, name string) {
		t.Helper()
		got, err := Encode(Request{Keys: []string{name}}, application)
		if want := tput(t, terminal, capability); err != nil || string(got.Data) != want {
			t.Errorf("%s is %q, %v; %s of %s is %q", name, got.Data, err, capability, terminal, want)
		}
	}
	for capability, name := range map[string]string{
		"kcuu1": "Up", "kcud1": "Down", "kcub1": "Left", "kcuf1": "Right", "khome": "Home", "kend": "End",
		"kpp": "PageUp", "knp": "PageDown", "kich1": "IC", "kdch1": "DC", "kcbt": "BTab", "kbs": "BSpace",
		"kent": "KPEnter",
	} {
		check("xterm", capability, name)
	}
	modified := map[string]string{"UP": "Up", "DN": "Down", "LFT": "Left", "RIT": "Right", "PRV": "PPage", "NXT": "NPage", "IC": "IC", "DC": "DC"}
	for parameter, prefix := range map[int]string{3: "M-", 4: "M-S-", 5: "C-", 6: "C-S-", 7: "C-M-"} {
		for capability, name := range modified {
			check("xterm", fmt.Sprintf("k%s%d", capability, parameter), prefix+name)
		}
	}
	// xterm counts F1 with Shift as F13, and so on with Ctrl.
	for i := 1; i <= 12; i++ {
		check("xterm", fmt.Sprintf("kf%d", i), fmt.Sprintf("F%d", i))
		check("xterm", fmt.Sprintf("kf%d", i+12), fmt.Sprintf("S-F%d", i))
		check("xterm", fmt.Sprintf("kf%d", i+24), fmt.Sprintf("C-F%d", i))
	}
	for capability, name := range map[string]string{
		"kf13": "F13", "kf14": "F14", "khlp": "F15", "krdo": "F16", "kf17": "F17", "kf18": "F18", "kf19": "F19", "kf20": "F20",
	} {
		check("vt220", capability, name)
	}
	application = Options{}
	check("tmux", "khome", "Home")
	check("tmux", "kend", "End")

	var d Detector
	for _, step := range []struct {
		capability string
		cursor     CursorMode
		paste      bool
	}{
		{"smkx", CursorApplication, false}, {"rmkx", CursorNormal, false}, {"BE", CursorNormal, true}, {"smkx", CursorApplication, true},
		{"rs2", CursorNormal, true}, {"smkx", CursorApplication, true}, {"clear", CursorApplication, true}, {"rs1", CursorNormal, false},
	} {
		fmt.Fprint(&d, tput(t, "xterm", step.capability))
		if d.Cursor() != step.cursor || d.BracketedPaste() != step.paste {
			t.Fatalf("after %s: %v cursor, paste %v", step.capability, d.Cursor(), d.BracketedPaste())
		}
	}
	for capability, want := range map[string]string{"PS": pasteStart, "PE": pasteEnd, "u7": cursorRequest} {
		if got := tput(t, "xterm", capability); got != want {
			t.Errorf("%s of xterm is %q, want %q", capability, got, want)
		}
	}
}
