package images

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func bytesLayer(b []byte) Layer {
	return LayerFunc(func(_ context.Context, w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

func writeArchive(t *testing.T, a *Archive) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := a.Write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if int64(out.Len()) != a.Size {
		t.Errorf("%d bytes, and it said %d", out.Len(), a.Size)
	}
	return out.Bytes()
}

// The image is the same whenever it is made, and another with another layer,
// configuration or date.
func TestArchiveIsReproducible(t *testing.T) {
	make := func(layer string, labels map[string]string, created time.Time) *Archive {
		a, err := NewArchive(t.Context(), "corral/x:1", ImageConfig{User: "1:2", Env: []string{"A=b"}, Labels: labels}, created, bytesLayer([]byte(layer)), bytesLayer(nil))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	labels := map[string]string{"a": "1", "b": "2", "c": "3"}
	first := make("layer", labels, testTime)
	again := make("layer", labels, testTime.Add(time.Millisecond).Local())
	if first.Config != again.Config || first.Manifest != again.Manifest || !bytes.Equal(writeArchive(t, first), writeArchive(t, again)) {
		t.Error("the same image is another")
	}
	for what, other := range map[string]*Archive{
		"layer": make("other", labels, testTime), "config": make("layer", nil, testTime), "date": make("layer", labels, testTime.Add(time.Second)),
	} {
		if other.Config == first.Config || other.Manifest == first.Manifest {
			t.Errorf("another %s, and the same image", what)
		}
	}
}

// All that an archive says of itself is so, to those who read it by the OCI's
// rules and to those who read it by Docker's.
func TestArchiveFormat(t *testing.T) {
	a, err := NewArchive(t.Context(), "corral/x", ImageConfig{User: "1:2", Dir: "/d", Cmd: []string{"c"}, Comment: "why"}, testTime, bytesLayer([]byte("one")), bytesLayer([]byte("two")))
	if err != nil {
		t.Fatal(err)
	}
	files := readFiles(t, writeArchive(t, a))
	read := func(d ocispec.Descriptor, v any) []byte {
		t.Helper()
		text, ok := files["blobs/sha256/"+d.Digest.Encoded()]
		if !ok || digest.FromBytes(text) != d.Digest || int64(len(text)) != d.Size {
			t.Fatalf("no blob %+v, or another: %q", d, text)
		}
		if v != nil {
			if err := json.Unmarshal(text, v); err != nil {
				t.Fatal(err)
			}
		}
		return text
	}
	var index ocispec.Index
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%v, %s", err, files["index.json"])
	}
	top := index.Manifests[0]
	if top.Digest != a.Manifest || top.Annotations[nameAnnotation] != "docker.io/corral/x:latest" {
		t.Errorf("index %+v", top)
	}
	var manifest ocispec.Manifest
	read(top, &manifest)
	var image ocispec.Image
	read(manifest.Config, &image)
	if manifest.Config.Digest != a.Config || image.Config.User != "1:2" || image.Config.WorkingDir != "/d" || !image.Created.Equal(testTime) || len(image.History) != 2 {
		t.Errorf("configuration %+v", image)
	}
	var docker []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &docker); err != nil || len(docker) != 1 || len(docker[0].RepoTags) != 1 || docker[0].RepoTags[0] != "corral/x:latest" || docker[0].Config != "blobs/sha256/"+a.Config.Encoded() {
		t.Errorf("%v, %s", err, files["manifest.json"])
	}
	for i, want := range []string{"one", "two"} {
		if got := read(manifest.Layers[i], nil); string(got) != want || image.RootFS.DiffIDs[i] != manifest.Layers[i].Digest || string(files[docker[0].Layers[i]]) != want {
			t.Errorf("layer %d is %q, %v, %s", i, got, image.RootFS.DiffIDs[i], docker[0].Layers[i])
		}
	}
}

// What changes while it is sent is no image.
func TestArchiveOfWhatChanges(t *testing.T) {
	for _, then := range []string{"shorter", "as long as that..", "longer than what was there before"} {
		text := "as long as this.."
		a, err := NewArchive(t.Context(), "corral/x:1", ImageConfig{}, testTime, LayerFunc(func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}))
		if err != nil {
			t.Fatal(err)
		}
		text = then
		if err := a.Write(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "changed") {
			t.Errorf("%q: %v", then, err)
		}
	}
}

func TestArchiveName(t *testing.T) {
	for _, name := range []string{"", "UPPER", "x@sha256:" + strings.Repeat("a", 64)} {
		if _, err := NewArchive(t.Context(), name, ImageConfig{}, testTime); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestTags(t *testing.T) {
	got := tags([]string{"docker.io/corral/x:1", "corral/y:2", "<none>:<none>", "registry.example:5000/z:3", "localhost/w:4"})
	if want := []string{"corral/x:1", "corral/y:2", "registry.example:5000/z:3", "localhost/w:4"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
