//go:build e2e && linux

package containerd_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/registry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox/containerd"
)

func TestImages(t *testing.T) {
	e := enginetest.Containerd(t)
	store := images.Store{Engine: e.Images(), Dir: t.TempDir()}
	img, err := store.Ensure(t.Context(), images.Busybox, func(ev images.Event) { t.Errorf("it is there, and %+v", ev) })
	if err != nil || img.Stale || img.Ref != images.Busybox || img.Arch == "" || img.Size < 1<<20 || img.Size > 4<<20 {
		t.Fatalf("%+v, %v", img, err)
	}
	again, err := store.Build(t.Context(), images.Busybox, nil)
	if err != nil || again.ID != img.ID {
		t.Errorf("built again: %+v, %v; want the same ID", again, err)
	}
	byID, err := store.Ensure(t.Context(), img.ID, nil)
	if err != nil || byID.ID != img.ID {
		t.Errorf("by its ID: %+v, %v", byID, err)
	}
	list, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, i := range list {
		if i.ID == img.ID {
			n++
		}
	}
	if n != 1 {
		t.Errorf("listed %d times: %+v", n, list)
	}
	if err := store.Remove(t.Context(), "corral/nothing:1"); !errors.Is(err, images.ErrNoImage) {
		t.Errorf("remove of none: %v", err)
	}
}

// layerOf is a tar archive of one file.
func layerOf(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func remove(t *testing.T, e *containerd.Engine, name string) {
	t.Helper()
	if err := e.Images().RemoveImage(context.WithoutCancel(t.Context()), name); err != nil && !errdefs.IsNotFound(err) {
		t.Error(err)
	}
}

// archiveOf is an image of one layer on its way.
func archiveOf(t *testing.T, name string, layer []byte) []byte {
	t.Helper()
	config := images.ImageConfig{Env: []string{"A=b"}, Labels: map[string]string{"corral.test": "yes"}}
	a, err := images.NewArchive(t.Context(), name, config, time.Unix(1e9, 0), images.LayerFunc(func(_ context.Context, w io.Writer) error {
		_, err := w.Write(layer)
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.Write(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// An import that breaks off leaves no image; one that succeeds takes the name.
func TestLoad(t *testing.T) {
	e := enginetest.Containerd(t)
	const name = "corral/import-test:1"
	remove(t, e, name)
	t.Cleanup(func() { remove(t, e, name) })
	broken := errors.New("it broke")
	whole := archiveOf(t, name, layerOf(t, "file", "text"))
	for _, at := range []int{600, len(whole) / 2, len(whole) - 2048} {
		err := e.Images().Load(t.Context(), io.MultiReader(bytes.NewReader(whole[:at]), errorReader{broken}))
		if !errors.Is(err, broken) {
			t.Errorf("broken off at %d: %v", at, err)
		}
		if left, err := e.Unfinished(t.Context()); err != nil || slices.ContainsFunc(left, func(ref string) bool { return strings.HasPrefix(ref, "tar-") }) {
			t.Errorf("broken off at %d: %v is left, %v", at, left, err)
		}
	}
	for what, archive := range map[string][]byte{
		"no archive":     []byte("this is no archive, " + strings.Repeat("and it is longer than a block", 100)),
		"no image":       layerOf(t, "file", "text"),
		"no layer in it": archiveOf(t, name, []byte("this is no archive, "+strings.Repeat("and it is longer than a block", 100))),
	} {
		if err := e.Images().Load(t.Context(), bytes.NewReader(archive)); err == nil {
			t.Errorf("%s was imported", what)
		}
	}
	if img, err := e.Images().Image(t.Context(), name); !errdefs.IsNotFound(err) {
		t.Errorf("left: %+v, %v", img, err)
	}
	var ids []string
	for _, text := range []string{"one", "two", "one"} {
		if err := e.Images().Load(t.Context(), bytes.NewReader(archiveOf(t, name, layerOf(t, "dir/file", text)))); err != nil {
			t.Fatal(err)
		}
		img, err := e.Images().Image(t.Context(), name)
		if err != nil || img.Labels["corral.test"] != "yes" || len(img.Tags) != 1 || img.Tags[0] != name {
			t.Errorf("%+v, %v", img, err)
		}
		got, err := e.Images().ReadFile(t.Context(), name, "/dir/file", 3)
		if err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
		ids = append(ids, img.ID)
	}
	if ids[0] == ids[1] || ids[0] != ids[2] {
		t.Errorf("IDs %v", ids)
	}
	if _, err := e.Images().ReadFile(t.Context(), name, "/dir/none", 3); !errdefs.IsNotFound(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	if got, err := e.Images().ReadFile(t.Context(), name, "/dir/file", 2); err == nil {
		t.Errorf("a file that is too large: %q", got)
	}
	found, err := e.Images().Images(t.Context(), "corral.test")
	if err != nil || len(found) != 1 || found[0].ID != ids[0] {
		t.Errorf("%+v, %v", found, err)
	}
}

type errorReader struct{ err error }

func (r errorReader) Read([]byte) (int, error) { return 0, r.err }

// registryOf serves one image to who has the password.
func registryOf(t *testing.T, layer []byte) *httptest.Server {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(layer)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	add := func(mediaType string, data []byte) ocispec.Descriptor {
		d := digest.FromBytes(data)
		blobs[d.String()] = data
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
	}
	text := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	image := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}}}
	image.Architecture = archOf(t)
	manifest := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: add(ocispec.MediaTypeImageConfig, text(image)),
		Layers: []ocispec.Descriptor{add(ocispec.MediaTypeImageLayerGzip, packed.Bytes())}}
	manifest.SchemaVersion = 2
	top := add(ocispec.MediaTypeImageManifest, text(manifest))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		parts := strings.Split(r.URL.Path, "/")
		what := parts[len(parts)-1]
		if what == "1" {
			what = top.Digest.String()
		}
		data, found := blobs[what]
		if !found || !strings.HasPrefix(r.URL.Path, "/v2/team/tool/") {
			http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`, http.StatusNotFound)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			w.Header().Set("Docker-Content-Digest", what)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if r.Method != http.MethodHead {
			w.Write(data)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

func archOf(t *testing.T) string {
	t.Helper()
	_, arch, err := enginetest.Containerd(t).Images().Platform(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return arch
}

func TestPull(t *testing.T) {
	e := enginetest.Containerd(t)
	host := strings.TrimPrefix(registryOf(t, layerOf(t, "pulled", "yes")).URL, "http://")
	password := "secret"
	var asked []string
	store := images.Store{Engine: e.Images(), Credentials: func(_ context.Context, domain string) (registry.AuthConfig, error) {
		asked = append(asked, domain)
		return registry.AuthConfig{Username: "me", Password: password}, nil
	}}
	ref := host + "/team/tool:1"
	t.Cleanup(func() { remove(t, e, ref) })
	img, err := store.Ensure(t.Context(), ref, nil)
	if err != nil || img.Ref != ref || img.Recipe != "" || len(asked) != 1 || asked[0] != host {
		t.Fatalf("%+v, %v; asked for %v", img, err, asked)
	}
	// It is unpacked, so that a container can be made of it at once.
	if img.Size == 0 {
		t.Errorf("it takes no room: %+v", img)
	}
	if _, err := store.Ensure(t.Context(), host+"/team/other:1", nil); !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "no such image") {
		t.Errorf("an image that is not there: %v", err)
	}
	password = "wrong"
	if _, err := store.Ensure(t.Context(), host+"/team/tool:2", nil); !errors.Is(err, corral.ErrDenied) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := store.Ensure(t.Context(), "127.0.0.1:1/team/tool:1", nil); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("a registry that is not there: %v", err)
	}
}
