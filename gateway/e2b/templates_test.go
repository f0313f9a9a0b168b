package e2b

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/gateway/access"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// What COPY says is where files go.
func TestPlacement(t *testing.T) {
	for _, tc := range []struct{ src, dst, name, want string }{
		{"a.txt", "b.txt", "a.txt", "b.txt"},
		{"a.txt", "b/", "a.txt", "b/a.txt"},
		{"dir/a.txt", "there", "dir/a.txt", "there/a.txt"}, // a directory that is there
		{"dir", "d", "dir/sub/a.txt", "d/sub/a.txt"},
		{"./dir/", "d/e", "dir/a.txt", "d/e/a.txt"},
		{"dir/*", "d", "dir/a.txt", "d/a.txt"},
		{"dir/*", "d", "dir/sub/a.txt", "d/sub/a.txt"},
		{"**/*.txt", "d", "dir/a.txt", "d/dir/a.txt"},
		{".", ".", "dir/a.txt", "dir/a.txt"},
		{"dir", "d", "other/a.txt", ""},
	} {
		home := t.TempDir()
		if err := os.MkdirAll(filepath.Join(home, "work/there"), 0o700); err != nil {
			t.Fatal(err)
		}
		f := files.Directory{Path: home, Root: Home}
		p, err := newPlacement(tc.src, tc.dst, "0600", Home+"/work")
		if err == nil {
			err = p.place(t.Context(), f, archive(t, tc.name))
		}
		if tc.want == "" {
			if !errors.Is(err, corral.ErrInvalid) {
				t.Errorf("%+v: %v", tc, err)
			}
			continue
		}
		i, serr := os.Stat(filepath.Join(home, "work", tc.want))
		if err != nil || serr != nil || i.Mode().Perm() != 0o600 {
			t.Errorf("%+v: %v, %v", tc, err, serr)
		}
	}
	p, err := newPlacement("*", "d", "", Home)
	if err == nil {
		err = p.place(t.Context(), files.Directory{Path: t.TempDir(), Root: Home}, archive(t, "../a.txt"))
	}
	if !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("a name that leads out: %v", err)
	}
}

// archive has one file, and is compressed.
func archive(t *testing.T, name string) io.Reader {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}), w.Close(), z.Close())
	if err != nil {
		t.Fatal(err)
	}
	return &b
}

// A build that has to end does so, also while it looks for files in an archive that is small,
// and has no end when it is unpacked.
func TestArchiveWithoutEnd(t *testing.T) {
	s, _ := lifeRig(t, session.Retention{})
	var part bytes.Buffer
	zip := func(data []byte) io.Reader {
		part.Reset()
		z := gzip.NewWriter(&part)
		_, err := z.Write(data)
		if err := errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(bytes.Clone(part.Bytes()))
	}
	var header bytes.Buffer
	if err := tar.NewWriter(&header).WriteHeader(&tar.Header{Name: "other", Size: 1 << 40, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	all := []io.Reader{zip(header.Bytes())}
	zip(make([]byte, 16<<20))
	for range 4000 {
		all = append(all, bytes.NewReader(part.Bytes()))
	}
	st := buildStep{Type: "COPY", Args: []string{"a.txt", "."}, Files: strings.Repeat("0", 64)}
	if err := s.cfg.Store.uploads.Put("a", st.Files, io.MultiReader(all...)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	box := boxFor(time.Hour)
	go func() {
		done <- s.doStep(ctx, &build{agent: "a"}, &box, files.Directory{Path: t.TempDir(), Root: Home}, st, "1")
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it goes on")
	}
}

// A sandbox is made of the template that there was when it was asked for, also if that is built
// anew or removed before the container is there.
func TestTemplateBuiltAnew(t *testing.T) {
	s, f := lifeRig(t, session.Retention{})
	f.home = t.TempDir()
	if err := os.WriteFile(filepath.Join(f.home, "a.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := Snapshot{ID: newSnapshotID(), Agent: config.DefaultE2BAgent, Name: "t", Built: true, Tags: []string{DefaultTag}}
	if _, err := s.cfg.Store.snaps.take(old, s.packed(t.Context(), Box{}, files.Directory{Path: f.home, Root: Home})); err != nil {
		t.Fatal(err)
	}
	f.home = t.TempDir()
	f.warming = func() {
		if err := s.cfg.Store.snaps.remove(old.ID); err != nil {
			t.Error(err)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "http://host/sandboxes", strings.NewReader(`{"templateID":"t"}`))
	w := httptest.NewRecorder()
	if err := s.create(w, r.WithContext(access.WithGrant(t.Context(), access.Token))); err != nil || w.Code != http.StatusCreated {
		t.Errorf("%d, %v", w.Code, err)
	}
	if _, err := os.Stat(filepath.Join(f.home, "a.txt")); err != nil {
		t.Error(err)
	}
}

// A tag is one template's of its name, and a template without tags is gone. A build that
// was cut short leaves nothing.
func TestTags(t *testing.T) {
	dir := t.TempDir()
	s, err := openSnapshots(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	mine := func(agent string) bool { return agent == "a" }
	take := func(name string, tags ...string) Snapshot {
		snap, err := s.take(Snapshot{ID: newSnapshotID(), Agent: "a", Built: true}, func(*os.File) (int64, error) { return 0, nil })
		if err == nil && name != "" {
			err = s.tag(snap.ID, name, tags)
		}
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	first, second := take("x", DefaultTag, "v1"), take("x", DefaultTag)
	third := take("x", "v1")
	cut := take("")
	for text, want := range map[string]string{"x": second.ID, "x:v1": third.ID, "x:default": second.ID, "x:v2": "", first.ID: "", second.ID + ":default": second.ID} {
		if got, _ := s.find(mine, text); got.ID != want {
			t.Errorf("%s: %q, want %q", text, got.ID, want)
		}
	}
	if err := s.untag("a", "x", []string{"v1"}); err != nil {
		t.Fatal(err)
	}
	again, err := openSnapshots(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if list := again.of(mine); len(list) != 1 || list[0].ID != second.ID {
		t.Errorf("%+v", list)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 2 {
		t.Errorf("%v of the build %s: %v", left, cut.ID, err)
	}
}

// As many snapshots as an agent may have it may have, also if all are made at once.
func TestSnapshotsAtOnce(t *testing.T) {
	s, err := openSnapshots(testdir.New(t), false)
	if err != nil {
		t.Fatal(err)
	}
	take := func(agent string, write func()) error {
		_, err := s.take(Snapshot{ID: newSnapshotID(), Agent: agent}, func(*os.File) (int64, error) {
			write()
			return 0, nil
		})
		return err
	}
	for range maxSnapshots - 1 {
		if err := take("a", func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if err := take("a", func() {
		if err := take("a", func() {}); !errors.Is(err, corral.ErrUnavailable) {
			t.Errorf("one too many: %v", err)
		}
		if err := take("b", func() {}); err != nil {
			t.Errorf("of another agent: %v", err)
		}
	}); err != nil {
		t.Error(err)
	}
}

// Two agents have a template of one name. A key for both means that of its own agent: it
// removes no other, and sends files for no other's build.
func TestTemplatesOfOneName(t *testing.T) {
	s, _ := lifeRig(t, session.Retention{})
	for _, agent := range []string{config.DefaultE2BAgent, "other"} {
		snap, err := s.cfg.Store.snaps.take(Snapshot{ID: newSnapshotID(), Agent: agent, Built: true}, func(*os.File) (int64, error) { return 0, nil })
		if err == nil {
			err = s.cfg.Store.snaps.tag(snap.ID, "web", []string{DefaultTag})
		}
		if err == nil {
			err = s.builds.add(&build{id: newSnapshotID(), agent: agent, name: "web", status: buildWaiting})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequest(http.MethodDelete, "/templates/web", nil)
	r.SetPathValue("id", "web")
	r.SetPathValue("hash", strings.Repeat("0", 64))
	if b, _, err := s.buildOfFiles(r); err != nil || b.agent != config.DefaultE2BAgent {
		t.Errorf("files are for a build of %+v, %v", b, err)
	}
	for _, left := range []string{"other", ""} {
		if err := s.removeTemplate(httptest.NewRecorder(), r); err != nil {
			t.Fatal(err)
		}
		if list := s.built(r, "web"); (len(list) == 0) != (left == "") || left != "" && list[0].Agent != left {
			t.Errorf("left is %+v, want that of %q", list, left)
		}
	}
}

// A link for an upload is for one path, one key and some time.
func TestUploadLink(t *testing.T) {
	s := &Server{signing: []byte("secret"), cfg: Config{Grant: func(ref string) *access.Grant { return &access.Grant{Name: ref} }}}
	until := fmt.Sprint(time.Now().Add(time.Minute).Unix())
	link := func(path, key, until, sign string) *http.Request {
		return httptest.NewRequest(http.MethodPut, path+"?"+url.Values{"key": {key}, "expires": {until}, "signature": {sign}}.Encode(), nil)
	}
	good := s.signLink("/templates/x/files/h", "k", until)
	if _, g, err := s.uploader(link("/templates/x/files/h", "k", until, good)); err != nil || g.Name != "k" {
		t.Errorf("%+v, %v", g, err)
	}
	past := fmt.Sprint(time.Now().Add(-time.Minute).Unix())
	for _, r := range []*http.Request{
		link("/templates/y/files/h", "k", until, good), link("/templates/x/files/h", "other", until, good), link("/templates/x/files/h", "k", until+"0", good),
		link("/templates/x/files/h", "k", past, s.signLink("/templates/x/files/h", "k", past)),
	} {
		if _, _, err := s.uploader(r); !errors.Is(err, api.ErrUnauthorized) {
			t.Errorf("%s: %v", r.URL, err)
		}
	}
}
