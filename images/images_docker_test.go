//go:build e2e

// These tests need a container engine, and those of the Debian image also
// root, mmdebstrap and a mirror. `go test ./...` does not build them; with the
// tag e2e an engine that does not answer is a failure.

package images

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/corral-exec/corral"
)

func dockerStore(t *testing.T) (Store, *client.Client) {
	t.Helper()
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	if _, err := cli.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return Store{Engine: Docker(cli), Dir: t.TempDir(), Credentials: noCredentials}, cli
}

// run runs a command in a container as the sandbox does: without network,
// capabilities, a writable root, or a user that the image knows.
func run(t *testing.T, cli *client.Client, img, user string, args ...string) (string, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cli.ContainerCreate(ctx,
		&container.Config{Image: img, Cmd: args, User: user, NetworkDisabled: true, Labels: map[string]string{"corral": "images-test"}},
		&container.HostConfig{NetworkMode: "none", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}},
		nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cli.ContainerRemove(context.WithoutCancel(ctx), c.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	ended, failed := cli.ContainerWait(ctx, c.ID, container.WaitConditionNextExit)
	if err := cli.ContainerStart(ctx, c.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	var code int64
	select {
	case r := <-ended:
		code = r.StatusCode
	case err := <-failed:
		t.Fatal(err)
	}
	logs, err := cli.ContainerLogs(ctx, c.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var out strings.Builder
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil {
		t.Fatal(err)
	}
	return out.String(), code
}

// Run is run for the tests outside of this package.
var Run = run

func TestDockerBusybox(t *testing.T) {
	store, cli := dockerStore(t)
	img, err := store.Ensure(t.Context(), Busybox, nil)
	if err != nil {
		t.Fatal(err)
	}
	if img.Stale || img.Size > 4<<20 {
		t.Errorf("image is %+v", img)
	}
	out, code := run(t, cli, Busybox, "1234:5678", "sh", "-lc", "echo $PATH; id -u; ls /workspace && env true && echo fine")
	want := "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games\n1234\nfine\n"
	if code != 0 || out != want {
		t.Errorf("exit %d, output %q, want %q", code, out, want)
	}

	again, err := store.Ensure(t.Context(), Busybox, func(e Event) { t.Errorf("the image is there, and %+v", e) })
	if err != nil || again.ID != img.ID {
		t.Errorf("Ensure again: %s, %v, want %s", again.ID, err, img.ID)
	}
	rebuilt, err := store.Build(t.Context(), Busybox, nil)
	if err != nil || rebuilt.ID != img.ID {
		t.Errorf("built twice, it is %s and %s, %v", img.ID, rebuilt.ID, err)
	}
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, i := range list {
		if i.ID == rebuilt.ID && i.Ref == Busybox && !i.Stale {
			listed++
		}
	}
	if listed != 1 {
		t.Errorf("list has the image %d times: %+v", listed, list)
	}
}

func TestDockerImportCancelled(t *testing.T) {
	store, cli := dockerStore(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reason := errors.New("changed my mind")
	const name = "corral/cancelled:1"
	a, err := NewArchive(ctx, name, ImageConfig{Labels: map[string]string{LabelImage: name}}, testTime, large(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	stop := func(e Event) {
		if e.Current > 32<<20 {
			cancel(reason)
		}
	}
	if err := store.load(ctx, name, a, stop); !errors.Is(err, reason) {
		t.Errorf("error %v, want %v", err, reason)
	}
	list, err := store.Engine.Images(t.Context(), LabelImage)
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range list {
		if img.Labels[LabelImage] == name {
			t.Errorf("left behind: %+v", img)
			if err := store.Engine.RemoveImage(t.Context(), img.ID); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := cli.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDockerMissingImage(t *testing.T) {
	store, _ := dockerStore(t)
	if err := store.Remove(t.Context(), "corral/nothing:1"); !errors.Is(err, ErrNoImage) {
		t.Errorf("remove: %v", err)
	}
}

// Killing the build in the middle of it leaves no file, mount or process. Until then the
// users of the machine do not get at its files.
func TestDockerDebianCancelled(t *testing.T) {
	store, _ := dockerStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	saw := false
	_, err := store.Build(ctx, Default, func(e Event) {
		if e.Phase == PhaseInstall && strings.HasPrefix(e.Message, "extracting") && !saw {
			saw = true
			dirs, err := filepath.Glob(filepath.Join(store.Dir, tempPrefix+"*"))
			if err != nil || len(dirs) != 1 {
				t.Errorf("%v, %v", dirs, err)
			}
			for _, dir := range dirs {
				if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o007 != 0 {
					t.Errorf("%s: %v, %v", dir, info, err)
				}
			}
			cancel()
		}
	})
	if !saw || !errors.Is(err, context.Canceled) {
		t.Errorf("saw %v, error %v", saw, err)
	}
	left, err := os.ReadDir(store.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), store.Dir) {
		t.Errorf("mounted, or %v:\n%s", err, mounts)
	}
	links, err := filepath.Glob("/proc/[0-9]*/root")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if root, err := os.Readlink(link); err == nil && strings.HasPrefix(root, store.Dir) {
			t.Errorf("%s is still %s", link, root)
		}
	}
}

func TestDockerDebian(t *testing.T) {
	store, cli := dockerStore(t)
	img, err := store.Ensure(t.Context(), Default, func(e Event) {
		if e.Warning {
			t.Log(e.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if img.Stale || img.Size > 200<<20 {
		t.Errorf("image is %+v", img)
	}
	out, code := run(t, cli, Default, "1000:1000", "sh", "-lc", `set -e
		echo $PATH; id; echo $LANG
		bash --version | head -n 1; git --version; curl --version | head -n 1
		python3 -c 'import ssl, sqlite3, json, venv; print("python fine")'
		bash -c 'echo ~agent; ldd $BASH' 2>&1 || test $? = 1
		rg --version | head -n 1; jq --version; ps -e | wc -l; less --version | head -n 1
		find / -xdev -perm /6000 2>/dev/null | wc -l`)
	t.Log(out)
	for _, want := range []string{
		"/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games\n", "uid=1000(agent) gid=1000(agent)", "C.UTF-8",
		"GNU bash", "\n/workspace\n\tnot a dynamic executable\n", "git version", "curl 7", "python fine", "ripgrep", "jq-1", "less",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	if code != 0 || !strings.HasSuffix(out, "\n0\n") {
		t.Errorf("exit %d", code)
	}
}

// The profile of the images leaves what Debian's own leaves, and starts nothing.
func TestDockerDebianProfile(t *testing.T) {
	store, cli := dockerStore(t)
	if _, err := store.Ensure(t.Context(), Base, nil); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"0:0", "1000:1000", "4321:4321"} {
		for _, shell := range []string{"dash", "bash"} {
			for _, prompt := range []string{"unset PS1", "PS1=", "PS1='mine '"} {
				after := func(profile string) string {
					out, code := run(t, cli, Base, user, shell, "-c", prompt+"; . "+profile+`; export -p; echo "PS1=${PS1-none} i=${i-none}"; umask; alias; trap`)
					if code != 0 {
						t.Fatalf("exit %d: %s", code, out)
					}
					return out
				}
				ours, debians := after("/etc/profile"), after("/usr/share/base-files/profile")
				hostname := regexp.MustCompile(`HOSTNAME='?"?[0-9a-f]{12}"?'?`) // that of the container
				ours, debians = hostname.ReplaceAllString(ours, ""), hostname.ReplaceAllString(debians, "")
				if ours != debians || !strings.Contains(ours, "PATH=") {
					t.Errorf("as %s, in %s after %s: profile leaves\n%s\nDebian's leaves\n%s", user, shell, prompt, ours, debians)
				}
			}
		}
	}
	for _, img := range []string{Base, Busybox} {
		if _, err := store.Ensure(t.Context(), img, nil); err != nil {
			t.Fatal(err)
		}
		// A process that the profile had started would have had the number after
		// the shell's. The shell is not process 1: runc's threads have the next ones.
		if out, code := run(t, cli, img, "1000:1000", "sh", "-c", `sh -lc 'true & echo $(($! - $$))'; true`); code != 0 || out != "1\n" {
			t.Errorf("in %s the process after the profile is %q after the shell, exit %d, want 1", img, out, code)
		}
	}
}

// What others built on an image of Corral's is not Corral's, whatever they built it with.
func TestDockerDerivedImages(t *testing.T) {
	store, cli := dockerStore(t)
	own, err := store.Ensure(t.Context(), Busybox, nil)
	if err != nil {
		t.Fatal(err)
	}
	const committed, built = "images-test/committed:1", "images-test/built:1"
	c, err := cli.ContainerCreate(t.Context(), &container.Config{Image: Busybox}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = cli.ContainerCommit(t.Context(), c.ID, container.CommitOptions{Reference: committed})
	if err := errors.Join(err, cli.ContainerRemove(t.Context(), c.ID, container.RemoveOptions{})); err != nil {
		t.Fatal(err)
	}
	var files bytes.Buffer
	if err := writeTar(t.Context(), &files, []entry{fileEntry("Dockerfile", 0o644, []byte("FROM "+Busybox+"\nENV A=b\n"), testTime)}, testTime); err != nil {
		t.Fatal(err)
	}
	r, err := cli.ImageBuild(t.Context(), &files, build.ImageBuildOptions{Tags: []string{built}, Remove: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(readStream(r.Body, func(message) {}), r.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{committed, built} {
		defer func() {
			if _, err := cli.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{}); err != nil {
				t.Error(err)
			}
		}()
		if img, ok, err := store.lookup(t.Context(), ref); err != nil || !ok || img.Recipe != own.Recipe {
			t.Errorf("%s does not inherit labels: %+v, %v", ref, img, err)
		}
		if err := store.Remove(t.Context(), ref); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "did not build") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, i := range list {
		found = found || i.ID == own.ID
		if slices.Contains(i.Tags, committed) || slices.Contains(i.Tags, built) {
			t.Errorf("Corral's own: %+v", i)
		}
	}
	if !found {
		t.Errorf("%s is not in %+v", own.ID, list)
	}
}

// onlyOne is an engine that has no other container: on the test's engine others may read.
type onlyOne struct {
	*client.Client
	id string
}

func (o onlyOne) ContainerList(ctx context.Context, opts container.ListOptions) ([]container.Summary, error) {
	opts.Filters.Add("id", o.id)
	return o.Client.ContainerList(ctx, opts)
}

// What ReadFile leaves when its program is killed is removed, with its volumes, when it is
// old enough.
func TestDockerReaderOfTheKilled(t *testing.T) {
	store, cli := dockerStore(t)
	if _, err := store.Ensure(t.Context(), Busybox, nil); err != nil {
		t.Fatal(err)
	}
	c, err := cli.ContainerCreate(t.Context(), &container.Config{Image: Busybox, Labels: map[string]string{labelReader: ""}, Volumes: map[string]struct{}{"/v": {}}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	is, err := cli.ContainerInspect(t.Context(), c.ID)
	if err != nil || len(is.Mounts) != 1 {
		t.Fatal(is.Mounts, err)
	}
	d := docker{onlyOne{cli, c.ID}}
	if err := d.removeReaders(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	if _, err := cli.ContainerInspect(t.Context(), c.ID); err != nil {
		t.Errorf("one that may still read is gone: %v", err)
	}
	if err := d.removeReaders(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if _, err := cli.ContainerInspect(t.Context(), c.ID); !cerrdefs.IsNotFound(err) {
		t.Errorf("it is left: %v", err)
	}
	if _, err := cli.VolumeInspect(t.Context(), is.Mounts[0].Name); !cerrdefs.IsNotFound(err) {
		t.Errorf("its volume is left: %v", err)
	}
}
