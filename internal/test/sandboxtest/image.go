package sandboxtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
)

// imageFiles are those of an image that has programs of its own, beside busybox. Its
// profile sets PATH anew, as Debian's does.
var imageFiles = []struct{ name, text string }{
	{"etc/profile", "PATH=/usr/bin:/bin; export PATH PROFILE=read\n"},
	{"opt/tool/bin/tool", "#!/bin/sh\necho \"tool of $TOOL_HOME, $A\"\n"},
	{"opt/last/tool", "#!/bin/sh\necho another\n"},
	{"opt/last/spare", "#!/bin/sh\necho spare\n"},
}

var imageEnv = []string{"PATH=/opt/tool/bin:/usr/bin:/bin:/opt/last", "TOOL_HOME=/opt/tool", "A=of the image", "B=of the image", "HOME=/root", "A_TOKEN=secret"}

// RunImage has commands find the programs and the variables of their image.
func (pl *Place) RunImage(t *testing.T) {
	of := Place{Name: pl.Name, Config: pl.Config, Engine: pl.Engine}
	of.prepare(t)
	eng, err := of.Engine()
	if err != nil {
		t.Fatal(err)
	}
	store := eng.(interface{ Images() images.Engine }).Images()
	image := "corral/image-test-" + strings.ToLower(corral.NewID()) + ":1"
	t.Cleanup(func() { // also when the test has failed, and the containers go with their directory
		if err := store.RemoveImage(context.WithoutCancel(t.Context()), image); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	load(t, store, image)
	of.Config.Image = image
	of.Config.Environment.Variables = map[string]string{"B": "configured"}

	x := of.open(t, filepath.Join(testdir.New(t), "state"))
	check := func(when string, cmd corral.Command, want string) {
		t.Helper()
		cmd.MergeStderr = true
		r, err := runner.Run(t.Context(), x, cmd, runner.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(r.Stdout.String()); got != want {
			t.Errorf("%s, %v printed %q, want %q", when, cmd, got, want)
		}
		if want := "1 variable left out: A_TOKEN"; r.Info.Notice != want {
			t.Errorf("%s, %v: the notice is %q, want %q", when, cmd, r.Info.Notice, want)
		}
	}
	all := func(when string) {
		t.Helper()
		check(when, corral.Command{Args: []string{"tool"}}, "tool of /opt/tool, of the image")
		check(when, corral.Command{Args: []string{"tool"}, Env: map[string]string{"A": "of the call"}}, "tool of /opt/tool, of the call")
		check(when, corral.Command{Shell: "tool; spare"}, "tool of /opt/tool, of the image\nspare")
		check(when, corral.Command{Shell: `echo "$PATH $B $HOME ${A_TOKEN-none} $PROFILE"`}, "/opt/tool/bin:/usr/bin:/bin:/opt/last configured "+sandbox.Workdir+" none read")
		check(when, corral.Command{Shell: `echo "$PATH"`, PathPrepend: []string{"/first"}}, "/first:/opt/tool/bin:/usr/bin:/bin:/opt/last")
	}
	all("at first")
	// The image's own directories are root's, with mode 755. Servers keep their sockets and PIDs in /run.
	check("in memory", corral.Command{Shell: "mkdir /run/a /tmp/a /var/tmp/a"}, "")
	if of.Config.Environment.Snapshot {
		WaitForSnapshot(t, x)
		all("with a snapshot")
	}
	x = of.reopen(t, x)
	all("in another life")
	if err := x.(*sandbox.Executor).Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// load puts the image into an engine.
func load(t *testing.T, store images.Engine, name string) {
	t.Helper()
	a, err := images.NewArchive(t.Context(), name, images.ImageConfig{Env: imageEnv}, time.Unix(1e9, 0), images.LayerFunc(writeImage))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.Write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if err := store.Load(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
}

func writeImage(_ context.Context, w io.Writer) error {
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	made := map[string]bool{".": true}
	var errs []error
	add := func(h tar.Header, text string) {
		h.Size = int64(len(text))
		errs = append(errs, tw.WriteHeader(&h))
		_, err := io.WriteString(tw, text)
		errs = append(errs, err)
	}
	var dir func(name string)
	dir = func(name string) {
		if !made[name] {
			dir(path.Dir(name))
			made[name] = true
			add(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755}, "")
		}
	}
	file := func(name, text string) {
		dir(path.Dir(name))
		add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, text)
	}
	for _, name := range []string{"tmp", "run", "proc", "sys", "dev", "workspace", "usr/bin"} {
		dir(name)
	}
	file("bin/busybox", string(busybox))
	for _, applet := range []string{"sh", "cat", "tr", "mkdir"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox"}, "")
	}
	for _, f := range imageFiles {
		file(f.name, f.text)
	}
	if err := errors.Join(append(errs, tw.Close())...); err != nil {
		return fmt.Errorf("cannot write the image: %w", err)
	}
	return nil
}
