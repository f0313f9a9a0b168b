//go:build e2e

package tour_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a command of a tour may take on a machine under load.
const patience = 2 * time.Minute

// The tours of the documentation are run as they are written: every line after
// "$ " in a console block is typed into one shell, and what it prints has to be
// what stands there. In it … is anything within a line, and a line of … alone
// any number of lines.
func TestTours(t *testing.T) {
	for _, name := range []string{"tour.md"} {
		t.Run(name, func(t *testing.T) { takeTour(t, filepath.Join("..", "..", "docs", "start", name)) })
	}
}

// A step is a command and what it prints.
type step struct {
	line    int
	command string
	want    []string
}

func takeTour(t *testing.T, doc string) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(string(text))
	if len(steps) < 10 {
		t.Fatalf("only %d commands in %s", len(steps), doc)
	}
	sh := startShell(t)
	for _, s := range steps {
		got, err := sh.run(s.command)
		if err != nil {
			t.Fatalf("%s:%d: $ %s\n%s%v", doc, s.line, s.command, got, err)
		}
		if !alike(s.want, lines(got)) {
			t.Fatalf("%s:%d: $ %s\nprinted\n%s\nand the tour says\n%s", doc, s.line, s.command, got, strings.Join(s.want, "\n"))
		}
	}
}

// stepsOf reads the console blocks.
func stepsOf(text string) []step {
	var steps []step
	inside := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
		case strings.HasPrefix(line, "> ") && len(steps) > 0 && len(steps[len(steps)-1].want) == 0:
			steps[len(steps)-1].command += "\n" + line[2:]
		case len(steps) > 0:
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

func lines(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// alike reports whether lines are what is wanted.
func alike(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		for n := 0; n <= len(got); n++ {
			if alike(want[1:], got[n:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && alikeLine(want[0], got[0]) && alike(want[1:], got[1:])
}

func alikeLine(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(want, " ")), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimRight(got, " "))
}

func TestAlike(t *testing.T) {
	for _, tc := range []struct {
		want, got string
		alike     bool
	}{
		{"", "", true}, {"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"", "a", false},
		{"a … c", "a b c", true}, {"a … c", "a b d", false}, {"a.c", "abc", false},
		{"…", "", true}, {"…", "a\nb", true}, {"a\n…\nd", "a\nb\nc\nd", true}, {"a\n…\nd", "a\nb\nc", false},
	} {
		if got := alike(lines(tc.want), lines(tc.got)); got != tc.alike {
			t.Errorf("%q and %q: %v", tc.want, tc.got, got)
		}
	}
}

// A shell is that of a user who takes the tour.
type shell struct {
	in   io.WriteCloser
	out  chan string
	mark string
}

func startShell(t *testing.T) *shell {
	t.Helper()
	home, err := os.MkdirTemp("", "corral-tour-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "corral")); err != nil {
		t.Fatalf("make build first: %v", err)
	}
	work := filepath.Join(home, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/bash", "--norc", "--noprofile")
	cmd.Dir = work
	cmd.Env = []string{
		"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + home, "SHELL=/bin/bash", "LANG=C.UTF-8",
		"XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "CORRAL_STATE_DIR=" + filepath.Join(home, "state"),
		"DOCKER_HOST=unix:///nonexistent/docker.sock", "GIT_CONFIG_GLOBAL=/dev/null",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sh := &shell{in: in, out: make(chan string, 1000), mark: fmt.Sprintf("mark-%d-", os.Getpid())}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(sh.out)
		for s := bufio.NewScanner(r); s.Scan(); {
			sh.out <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		// Whatever the tour left in the background, such as a gateway.
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Error(err)
		}
		go func() {
			for range sh.out { //nolint:revive // nobody reads the rest
			}
		}()
		select {
		case <-read:
		case <-time.After(patience):
			t.Error("something of the tour goes on")
		}
		_ = r.Close()
	})
	return sh
}

// run types a command and returns what it prints, until the shell is ready for
// the next one.
func (sh *shell) run(command string) (string, error) {
	if _, err := fmt.Fprintf(sh.in, "%s\necho; echo %s$?\n", command, sh.mark); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var got []string
	for {
		select {
		case line, ok := <-sh.out:
			if !ok {
				return strings.Join(got, "\n"), errors.New("the shell has ended")
			}
			if strings.HasPrefix(line, sh.mark) {
				return strings.TrimRight(strings.Join(got, "\n"), "\n"), nil
			}
			got = append(got, line)
		case <-ctx.Done():
			return strings.Join(got, "\n"), fmt.Errorf("no answer within %v", patience)
		}
	}
}
