//go:build e2e && linux

package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
)

// A recorder notes which image an engine is given.
type recorder struct {
	images.Engine
	config, manifest string // digests
}

func (r *recorder) Load(ctx context.Context, archive io.Reader) error {
	pr, pw := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := r.read(pr)
		_, rest := io.Copy(io.Discard, pr)
		read <- errors.Join(err, rest)
	}()
	err := r.Engine.Load(ctx, io.TeeReader(archive, pw))
	pw.Close() // never fails
	return errors.Join(err, <-read)
}

func (r *recorder) read(archive io.Reader) error {
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if err != nil {
			return err
		}
		switch h.Name {
		case "index.json":
			var index ocispec.Index
			if err := json.NewDecoder(tr).Decode(&index); err != nil {
				return err
			}
			r.manifest = index.Manifests[0].Digest.String()
		case "manifest.json":
			var manifest []struct{ Config string }
			if err := json.NewDecoder(tr).Decode(&manifest); err != nil {
				return err
			}
			r.config = "sha256:" + strings.TrimPrefix(manifest[0].Config, "blobs/sha256/")
			return nil
		}
	}
}

// built builds an image that the engine does not have.
func built(t *testing.T, engine images.Engine, name string, pins []images.Package) (images.Store, images.Image, *recorder) {
	t.Helper()
	r := &recorder{Engine: engine}
	store := images.Store{Engine: r, Dir: t.TempDir(), Pins: pins}
	if err := store.Remove(t.Context(), name); err != nil && !errors.Is(err, images.ErrNoImage) {
		t.Fatal(err)
	}
	begun := time.Now()
	img, err := store.Build(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s, %d MB, in %.1f s", name, img.ID, img.Size/1e6, time.Since(begun).Seconds())
	return store, img, r
}

// An image is the same on every engine and at every time, whether its packages are given by
// name or by a list. Its list of packages is true.
//
// In short it is the smallest; `make images` does all.
func TestReproducible(t *testing.T) {
	names := []string{images.Base}
	if os.Getenv("CORRAL_IMAGES_LONG") != "" {
		names = append(names, images.Default, images.Common)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			onDocker, first, sent := built(t, enginetest.New(t).Images(), name, nil)
			if first.ID != sent.config && first.ID != sent.manifest {
				t.Errorf("Docker has %s, and was given %+v", first.ID, sent)
			}
			sbom, err := onDocker.SBOM(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			pins, err := images.ReadPackages(bytes.NewReader(sbom))
			if err != nil {
				t.Fatal(err)
			}
			checkContents(t, name, pins)

			onContainerd, second, sentThere := built(t, enginetest.Containerd(t).Images(), name, pins)
			if second.ID != sentThere.manifest || sentThere.manifest != sent.manifest || sentThere.config != sent.config {
				t.Errorf("built again, it is %s (%s, %s), and was %s (%s, %s)", second.ID, sentThere.manifest, sentThere.config, first.ID, sent.manifest, sent.config)
			}
			if again, err := onContainerd.SBOM(t.Context(), name); err != nil || !bytes.Equal(sbom, again) {
				t.Errorf("another SBOM, %v:\n%s\n%s", err, sbom, again)
			}
		})
	}
}

// checkContents compares the list of packages with dpkg's, and looks what
// commands find.
func checkContents(t *testing.T, name string, listed []images.Package) {
	t.Helper()
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	out, code := images.Run(t, cli, name, "", "dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture}\n")
	installed := strings.Split(strings.TrimSpace(out), "\n")
	var want []string
	for _, p := range listed {
		if len(p.SHA256) != 64 {
			t.Errorf("no digest of %s", p.Name)
		}
		want = append(want, p.Name+" "+p.Version+" "+p.Arch)
	}
	slices.Sort(installed)
	slices.Sort(want)
	if code != 0 || !slices.Equal(installed, want) {
		t.Errorf("exit %d, installed:\n%s\nlisted:\n%s", code, strings.Join(installed, "\n"), strings.Join(want, "\n"))
	}

	// The user without --user, the locale, and a time zone that is asked for.
	out, code = images.Run(t, cli, name, "", "bash", "-lc", `set -e
		id -un; echo $HOME $(cd; pwd); locale charmap; localedef --list-archive; date +%Z; TZ=Asia/Tokyo date +%Z
		find / -xdev -perm /6000 2>/dev/null | wc -l; [ ! -w /etc ]`)
	if want := "agent\n/workspace /workspace\nUTF-8\nC.utf8\nUTC\nJST\n0\n"; code != 0 || out != want {
		t.Errorf("exit %d, %q, want %q", code, out, want)
	}
	for _, program := range map[string][]string{
		images.Base:    {"bash", "apt-get", "ps"},
		images.Default: {"git", "rg", "jq", "python3", "curl"},
		images.Common:  {"git", "rg", "jq", "python3", "node", "npm", "go", "gcc", "g++", "make", "cmake", "pip", "pkg-config"},
	}[name] {
		if out, code := images.Run(t, cli, name, "", "sh", "-lc", "command -v "+program+" && "+program+" "+versionOf(program)); code != 0 {
			t.Errorf("%s: exit %d, %s", program, code, out)
		}
	}
}

func versionOf(program string) string {
	if program == "go" {
		return "version"
	}
	return "--version"
}
