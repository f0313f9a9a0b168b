package e2b

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/gateway/ports"
	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A form that is cut is not taken for one that ends.
func TestForm(t *testing.T) {
	var whole bytes.Buffer
	w := multipart.NewWriter(&whole)
	for _, name := range []string{"a", "b"} {
		part, err := w.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(part, strings.Repeat("content of "+name+", ", 700)) // several buffers of package multipart
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSuffix(whole.String(), "\r\n")
	for n := len(text); n >= 0; n -= 7 {
		var seen []string
		err := eachFile(strings.NewReader(text[:n]), w.Boundary(), func(name string, from io.Reader) error {
			b, err := io.ReadAll(from)
			seen = append(seen, name+": "+string(b))
			return err
		})
		if whole := n == len(text); (err == nil) != whole || whole && (len(seen) != 2 || len(seen[1]) != len("b: ")+700*len("content of b, ")) {
			t.Fatalf("of %d bytes %d: %v, %d files", len(text), n, err, len(seen))
		}
	}
}

// A process is named by its PID or its tag: one that never had a PID is not by none.
func TestSelector(t *testing.T) {
	pid := func(n uint32) *envdpb.ProcessSelector {
		return &envdpb.ProcessSelector{Selector: &envdpb.ProcessSelector_Pid{Pid: n}}
	}
	tag := &envdpb.ProcessSelector{Selector: &envdpb.ProcessSelector_Tag{Tag: "t"}}
	for _, test := range []struct {
		p     *proc
		which *envdpb.ProcessSelector
		want  bool
	}{
		{&proc{pid: 7}, pid(7), true}, {&proc{pid: 7}, pid(8), false}, {&proc{}, pid(0), false}, {&proc{}, nil, false}, {&proc{tag: "t"}, tag, true}, {&proc{pid: 7}, tag, false},
	} {
		if got := test.p.matches(test.which); got != test.want {
			t.Errorf("pid %d, tag %q: %v is %v", test.p.pid, test.p.tag, test.which, got)
		}
	}
}

// What is kept is read as it was written, or the error names the file.
func TestStore(t *testing.T) {
	dir := testdir.New(t)
	s, err := OpenStore(filepath.Join(dir, "e2b"))
	if err != nil {
		t.Fatal(err)
	}
	b := Box{ID: newID(), Agent: "a", Env: map[string]string{"SECRET": "s"}, Started: time.Now().UTC(), End: time.Now().Add(time.Hour).UTC(), Token: newToken()}
	if err := s.add(b, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.add(Box{ID: newID(), Agent: "a"}, 1); !errors.Is(err, api.ErrTooMany) {
		t.Errorf("one too many: %v", err)
	}
	if got, err := s.Of("a", b.Session()); err != nil || got.ID != b.ID {
		t.Errorf("%+v", got)
	}
	for _, no := range [][2]string{{"b", b.Session()}, {"a", b.ID}, {"a", "e2b:other"}, {"a", ""}} {
		if got, _ := s.Of(no[0], no[1]); got.ID != "" {
			t.Errorf("%v: %+v", no, got)
		}
	}
	if _, err := s.change(b.ID, func(b *Box) error { b.Paused = true; return io.ErrUnexpectedEOF }); err == nil {
		t.Error("the error is not returned")
	}
	if got, _ := s.Get(b.ID); got.Paused {
		t.Error("it has changed in spite of an error")
	}
	file := s.file(b.ID)
	damagetest.File(t, file, file, func(a, b Box) bool { return reflect.DeepEqual(a, b) }, func() (Box, error) {
		again, err := OpenStore(s.dir)
		if err != nil {
			return Box{}, err
		}
		got, _ := again.Get(b.ID)
		return got, nil
	})
	if _, err := s.remove(b.ID); err != nil {
		t.Fatal(err)
	}
	if again, err := OpenStore(s.dir); err != nil || len(again.List()) > 0 {
		t.Errorf("%v, %v", again, err)
	}
}

// All pages together are all sandboxes, each once, in either order.
func TestPages(t *testing.T) {
	var all []Box
	for i := range 7 {
		all = append(all, Box{ID: fmt.Sprint("i", i), Started: time.Unix(int64(i/2), 0)})
	}
	for _, order := range []string{"asc", "desc"} {
		for limit := 1; limit < 9; limit++ {
			var got []string
			token := ""
			for {
				f, err := parseFilter(url.Values{"order": {order}, "limit": {fmt.Sprint(limit)}, "nextToken": {token}})
				if err != nil {
					t.Fatal(err)
				}
				var page []Box
				page, token = f.page(append([]Box(nil), all...))
				if len(page) > limit {
					t.Errorf("%d in a page of %d", len(page), limit)
				}
				for _, b := range page {
					got = append(got, b.ID)
				}
				if token == "" {
					break
				}
			}
			want := "i0 i1 i2 i3 i4 i5 i6"
			if order == "desc" {
				want = "i6 i5 i4 i3 i2 i1 i0"
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s by %d: %v", order, limit, got)
			}
		}
	}
}

func TestTarget(t *testing.T) {
	for _, tc := range []struct{ host, domain, headers, id, port string }{
		{"8000-iabc.e2b.test", "e2b.test", "", "iabc", "8000"},
		{"8000-iabc.e2b.test:3000", "e2b.test:3000", "", "iabc", "8000"},
		{"8000-iabc.e2b.test", "e2b.test", "iother 1", "iabc", "8000"}, // the name counts
		{"api.e2b.test", "e2b.test", "", "", ""},
		{"8000-iabc.e2b.test", "", "", "", ""},
		{"8000-iabc.evil", "e2b.test", "", "", ""},
		{"8000-iabce2b.test", "e2b.test", "", "", ""},
		{"127.0.0.1:3000", "e2b.test", "iabc 8000", "iabc", "8000"},
		{"127.0.0.1", "", "iabc 8000", "iabc", "8000"},
		{"127.0.0.1", "", "", "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = tc.host
		if id, port, ok := strings.Cut(tc.headers, " "); ok {
			r.Header.Set("E2b-Sandbox-Id", id)
			r.Header.Set("E2b-Sandbox-Port", port)
		}
		domain, err := ports.Parse(tc.domain)
		if err != nil {
			t.Fatal(err)
		}
		id, port, ok := (&Server{cfg: Config{Domain: domain}}).Target(r)
		if ok != (tc.id != "") || ok && (id != tc.id || port != tc.port) {
			t.Errorf("%+v: %q, %q, %v", tc, id, port, ok)
		}
	}
}

func TestChanges(t *testing.T) {
	file := func(size, second int64, mode files.Mode) files.Info {
		return files.Info{Type: files.TypeFile, Size: size, ModTime: time.Unix(second, 0), Mode: mode}
	}
	was := look{"same": file(1, 1, 1), "gone": file(1, 1, 1), "size": file(1, 1, 1), "time": file(1, 1, 1), "mode": file(1, 1, 1), "dir": {Type: files.TypeDir}}
	is := look{
		"same": file(1, 1, 1), "size": file(2, 1, 1), "time": file(1, 2, 1), "mode": file(1, 1, 2), "dir": {Type: files.TypeDir, ModTime: time.Unix(9, 0)},
		"new": file(1, 1, 1), "empty": file(0, 1, 1),
	}
	var got []string
	for _, e := range changes(was, is) {
		got = append(got, strings.TrimPrefix(e.GetType().String(), "EVENT_TYPE_")+" "+e.GetName())
	}
	const want = "REMOVE gone, CREATE empty, CHMOD mode, CREATE new, WRITE new, WRITE size, WRITE time"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func TestResolve(t *testing.T) {
	for name, want := range map[string]string{
		"": Home, ".": Home, "~": Home, "a": Home + "/a", "~/a": Home + "/a", "/a/../b/": "/b", "../../../etc": "/etc", "~x": Home + "/~x", "/": "/",
	} {
		if got := (call{user: "root", box: Box{Root: true}}).resolve(name); got != strings.Replace(want, Home, "/root", 1) {
			t.Errorf("of root, %q is %q", name, got)
		}
		if got := (call{user: "root"}).resolve(name); got != want { // whose sandbox has no other user
			t.Errorf("of one user by another name, %q is %q", name, got)
		}
		if got := (call{}).resolve(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzRange(f *testing.F) {
	f.Add("bytes=0-", int64(5))
	f.Add("bytes=-5", int64(3))
	f.Add("bytes=9223372036854775807-", int64(1))
	f.Fuzz(func(t *testing.T, text string, size int64) {
		if size < 0 {
			return
		}
		o, ok, err := parseRange(text, size)
		if ok && (err != nil || o.Offset < 0 || o.Limit <= 0 || o.Offset+o.Limit > size) {
			t.Errorf("%q of %d: %+v, %v", text, size, o, err)
		}
	})
}

func FuzzFilter(f *testing.F) {
	f.Add("metadata=a%3Db&state=running,paused&limit=3&nextToken=MQ&startedAfter=2026-01-02T03:04:05Z")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		filter, err := parseFilter(q)
		if err != nil {
			return
		}
		if page, _ := filter.page([]Box{{ID: "a"}, {ID: "b", Paused: true}}); len(page) > filter.limit || filter.limit < 1 || filter.limit > maxPage {
			t.Errorf("%q: %d of %d", query, len(page), filter.limit)
		}
	})
}

// Whatever a form is, its files are handed out by names, or it is an error.
func FuzzForm(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d/x\"\r\n\r\nabc\r\n--b--\r\n", "b")
	f.Add("--b\r\nContent-Disposition: form-data; name=other\r\n\r\nabc\r\n--b--\r\n", "b")
	f.Add("--b\r\n\r\n", "b")
	f.Fuzz(func(_ *testing.T, body, boundary string) {
		_ = eachFile(strings.NewReader(body), boundary, func(name string, from io.Reader) error {
			_ = call{}.resolve(name)
			_, err := io.Copy(io.Discard, from)
			return err
		})
	})
}

// No two patterns of the routes conflict.
func TestPatterns(t *testing.T) {
	s := &Server{}
	for _, plane := range [][]Route{s.Control(), s.Inside()} {
		mux := http.NewServeMux()
		for _, rt := range plane {
			mux.HandleFunc(rt.Pattern, func(http.ResponseWriter, *http.Request) {})
		}
	}
}

// Files in /proc say that they have no bytes, and have some.
func TestFileThatSeemsEmpty(t *testing.T) {
	want, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Skip(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := sendFile(r.Context(), w, r, files.Directory{Path: "/proc", Root: "/proc"}, "/proc/version"); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	s.Client().Transport.(*http.Transport).DisableCompression = true
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != string(want) {
		t.Errorf("%q, %v", got, err)
	}
}

// A link is what it leads to, also over others: in lists, and for parts of a file.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.WriteFile(filepath.Join(dir, "sub/a.txt"), []byte("0123456789abc"), 0o600),
		os.Symlink("l2", filepath.Join(dir, "l1")), os.Symlink("/sub/a.txt", filepath.Join(dir, "l2")),
		os.Symlink("d2", filepath.Join(dir, "d1")), os.Symlink("sub", filepath.Join(dir, "d2")),
		os.Symlink("/", filepath.Join(dir, "root")), os.Symlink("loop", filepath.Join(dir, "loop")),
	); err != nil {
		t.Fatal(err)
	}
	f := files.Directory{Path: dir, Root: "/"}
	r := httptest.NewRequest(http.MethodGet, "/files", nil)
	r.Header.Set("Range", "bytes=4-")
	w := httptest.NewRecorder()
	if err := sendFile(t.Context(), w, r, f, "/l1"); err != nil || w.Body.String() != "456789abc" || w.Header().Get("Content-Range") != "bytes 4-12/13" {
		t.Errorf("%q, %v, %v", w.Body, w.Header(), err)
	}
	if i, err := f.Stat(t.Context(), "/l1"); err != nil {
		t.Error(err)
	} else if e := entry(t.Context(), f, i); e.Type != envdpb.FileType_FILE_TYPE_FILE || e.Size != 13 || e.GetSymlinkTarget() != "/sub/a.txt" {
		t.Errorf("%v", e)
	}

	b := boxFor(time.Hour)
	for name, want := range map[string]string{"/sub": "/sub/a.txt", "/d1": "/d1/a.txt", "/root": "/root/d1 /root/d2 /root/l1 /root/l2 /root/loop /root/root /root/sub", "/loop": ""} {
		a, err := listDir(call{Context: t.Context(), box: b}, f, &envdpb.ListDirRequest{Path: name})
		var got []string
		for _, e := range a.GetEntries() {
			got = append(got, e.Path)
		}
		if strings.Join(got, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
