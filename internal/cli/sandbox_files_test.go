//go:build unix

package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-exec/corral/internal/cli/app"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

// filesExecutor is a sandbox that is a directory.
type filesExecutor struct {
	*fakeexec.Executor
	fs files.FS
}

func (e filesExecutor) Files(context.Context) (files.FS, error) { return e.fs, nil }

// Of a gateway, too, the name of a sandbox that there is not is an error, unless the agent is
// named whose it will be.
func TestSandboxFilesOfGateway(t *testing.T) {
	state := gatewayWithPorts(t)
	t.Chdir(testdir.New(t))
	if err := os.WriteFile("f", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &fakeMachine{}
	for _, tc := range []struct {
		args, dir string // the latter is whose the files are
	}{
		{"cp f typo:", ""}, {"cat typo:f", ""}, {"ls-files typo", ""},
		{"cp f box:", "me box"}, {"cat box:f", "me box"}, {"cp --agent new f new:", "new new"},
	} {
		code, _, errs := m.run(t, []string{"CORRAL_STATE_DIR=" + state}, append([]string{"sandbox"}, strings.Fields(tc.args)...)...)
		if tc.dir == "" && (code == 0 || !strings.Contains(errs, `no sandbox "typo"`)) || tc.dir != "" && code != 0 {
			t.Errorf("%s: %d, %s", tc.args, code, errs)
		}
		if left, _ := filepath.Glob(filepath.Join(state, "* typo")); len(left) > 0 {
			t.Errorf("%s: made %v", tc.args, left)
		}
		if tc.dir != "" {
			if b, err := os.ReadFile(filepath.Join(state, tc.dir, "f")); string(b) != "text" {
				t.Errorf("%s: %q, %v", tc.args, b, err)
			}
		}
	}
}

func TestSandboxFiles(t *testing.T) {
	box, here := testdir.New(t), testdir.New(t)
	var opened []string
	state := testdir.New(t)
	if err := os.MkdirAll(filepath.Join(state, "sandboxes", "box"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "sandboxes", "box", "sandbox.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin io.Reader, args ...string) (int, string, string) {
		t.Helper()
		in, err := os.CreateTemp(testdir.New(t), "stdin")
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if stdin != nil {
			if _, err := io.Copy(in, stdin); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Seek(0, io.SeekStart); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		b := (&fakeMachine{}).backends()
		b.Sandbox = func(o daemon.SandboxOptions) (daemon.Executor, error) {
			opened = append(opened, o.Name)
			return filesExecutor{&fakeexec.Executor{}, files.Directory{Path: box, Root: "/workspace"}}, nil
		}
		a := &app.App{Version: "v1", Stdin: in, Stdout: &out, Stderr: &errs, Environ: []string{"HOME=" + here, "CORRAL_STATE_DIR=" + state}, Backends: b}
		return commands{a}.run(t.Context(), append([]string{"sandbox"}, args...)), out.String(), errs.String()
	}
	ok := func(args ...string) string {
		t.Helper()
		code, out, errs := run(nil, args...)
		if code != 0 || errs != "" {
			t.Errorf("%q: code %d, %s", args, code, errs)
		}
		return out
	}
	for name, text := range map[string]string{"f": "one", "d/g": "two", "a:b": "colon"} {
		name = filepath.Join(here, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(here)
	if err := os.Symlink(filepath.Join(here, "d"), filepath.Join(testdir.New(t), "l")); err != nil {
		t.Fatal(err)
	}
	ok("cp", "f", "box:new")
	ok("cp", "d", "box:")
	ok("cp", "d/.", "box:/workspace/d/more")
	ok("cp", "./a:b", "box:.")
	ok("cp", "box:d", "out")
	ok("cp", "box:new", "out/")
	ok("cp", "box:d/g", filepath.Join(here, "out", "h"))
	for name, want := range map[string]string{"out/g": "two", "out/more/g": "two", "out/new": "one", "out/h": "two"} {
		if got, err := os.ReadFile(filepath.Join(here, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if got := ok("cat", "box:new", "box:/workspace/d/more/g", "box:a:b"); got != "onetwocolon" {
		t.Errorf("cat: %q", got)
	}
	if got := opened[len(opened)-1]; got != "box" {
		t.Errorf("opened %q", got)
	}

	archive := ok("cp", "box:d", "-")
	if h, err := tar.NewReader(strings.NewReader(archive)).Next(); err != nil || h.Name != "d/" {
		t.Errorf("%+v, %v", h, err)
	}
	if code, _, errs := run(strings.NewReader(archive), "cp", "-", "box:d"); code != 0 {
		t.Error(errs)
	}
	if err := os.WriteFile(filepath.Join(box, "line\nbreak"), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("new", filepath.Join(box, "link")); err != nil {
		t.Fatal(err)
	}
	list := ok("ls-files", "box")
	for _, want := range []string{"drwxr-xr-x ", "lrwxrwxrwx ", "-rw-r----- ", ` "line\nbreak"` + "\n", " link -> new\n", "           3 "} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in\n%s", want, list)
		}
	}
	if got := ok("ls-files", "--json", "box:d/d"); !strings.Contains(got, `"/workspace/d/d/g"`) {
		t.Errorf("%s", got)
	}

	if err := errors.Join(os.Mkdir(filepath.Join(box, "odd"), 0o755), syscall.Mkfifo(filepath.Join(box, "odd", "fifo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir("odd", 0o755), syscall.Mkfifo(filepath.Join("odd", "fifo"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join("over", "g", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"cp", "box:odd", "there"}, {"cp", "odd/.", "box:here"}, {"cp", "box:odd", "-"}} {
		if code, _, errs := run(nil, args...); code != 0 || errs != "warning: Devices, FIFOs and sockets that were left out: 1.\n" {
			t.Errorf("%q: code %d, %s", args, code, errs)
		}
	}

	for _, c := range []struct{ args, says string }{
		{"cp box:odd/fifo x", "it is a fifo"}, {"cp box:odd/fifo -", "box:odd/fifo is a device, a FIFO or a socket"},
		{"cp odd/fifo box:x", "it is a fifo"}, {"cp /dev/null box:x", "it is a device"},
		{"cp none box:", "cannot look at none: no"}, {"cp ../x/none box:", "there is no directory ../x\n"},
		{"cp " + here + "/none box:", "cannot look at " + here + "/none: no"}, {"cp f/. box:", "f/. is a file"},
		{"cp box:d ./f", "the directory d over the file ./f\n"}, {"cp d box:new", "the directory d over the file new\n"},
		{"cp box:new none/", "cannot look at none/: no"}, {"cp box:d/. over", "cannot unpack over/g: "}, {"cp box:none x", "ls-files shows"},
		{"cp f", "wants the SOURCE and DESTINATION"}, {"cp f g", "has to be in a sandbox"}, {"cp box:f box:g", "has to be in a sandbox"},
		{"cp none box:", "no such file or directory"}, {"cp box:none x", "no such file or directory"}, {"cp box:../etc x", "not in the workspace"},
		{"cat f", "not a path in a sandbox"}, {"cat", "wants a path"}, {"cat box:d", "it is a directory"}, {"ls-files box:new", "it is a file"},
		{"ls-files other", "no sandbox \"other\""},
	} {
		code, _, errs := run(nil, strings.Fields(c.args)...)
		if code == 0 || !strings.Contains(errs, c.says) || strings.Contains(errs, "ls-files shows") != strings.Contains(c.args, "box:none") {
			t.Errorf("%s: code %d, %s", c.args, code, errs)
		}
	}
}
