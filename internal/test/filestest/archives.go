package filestest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

// sum is a hash that counts.
type sum struct {
	hash.Hash
	n int64
}

func newSum() *sum { return &sum{Hash: sha256.New()} }

func (s *sum) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return s.Hash.Write(p)
}

func (s *sum) String() string { return hex.EncodeToString(s.Sum(nil)) }

// Pack makes an archive. The content of an entry is in PAXRecords, under
// "content".
func Pack(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := h.PAXRecords["content"]
		if h.Typeflag != tar.TypeXGlobalHeader {
			h.PAXRecords = nil
			h.Mode = cmp.Or(h.Mode, 0o644)
		}
		if h.Size == 0 {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func content(text string) map[string]string { return map[string]string{"content": text} }

func upload(s *suite) {
	when := time.Date(2021, 2, 3, 4, 5, 6, 0, time.UTC)
	data := Pack(s.T,
		tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "of git archive"}},
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o777},
		tar.Header{Name: "./dir/", Typeflag: tar.TypeDir, Mode: 0o500},
		tar.Header{Name: "./dir/f", Mode: 0o6755, Uid: 0, Gid: 0, Uname: "root", ModTime: when, PAXRecords: content("one")},
		tar.Header{Name: "./dir/again", Typeflag: tar.TypeLink, Linkname: "./dir/f"},
		tar.Header{Name: "no/parents/f", PAXRecords: content("two")},
		tar.Header{Name: "old", PAXRecords: content("new")},
		tar.Header{Name: "tolink", PAXRecords: content("in its place")},
		tar.Header{Name: "sym", Typeflag: tar.TypeSymlink, Linkname: "dir/f"},
		tar.Header{Name: "away", Typeflag: tar.TypeSymlink, Linkname: "/nowhere/../else"},
	)
	s.in("echo old > old; echo kept > target; ln -s target tolink; mkdir -m 750 there")
	got, err := s.FS.Upload(s.Context(), s.Root, bytes.NewReader(data), files.Limits{})
	if err != nil || got.Bytes != int64(len("one"+"two"+"new"+"in its place")) {
		s.Errorf("%+v, %v", got, err)
	}
	script := `stat -c '%a %n' . dir dir/f | tail -n 2; cat sym no/parents/f old tolink target; readlink away; stat -c %Y dir/f
[ dir/f -ef dir/again ] && echo same; find . ! -user "$(id -u)"; chmod 700 dir; ls -A`
	want := "500 dir\n755 dir/f\nonetwonewin its placekept\n/nowhere/../else\n" + fmt.Sprint(when.Unix()) + "\nsame\naway\ndir\nno\nold\nsym\ntarget\nthere\ntolink\n"
	if got := s.in(script); got != want {
		s.Errorf("commands find %q\nwant %q", got, want)
	}
}

func hostile(s *suite) {
	file := func(name string) tar.Header { return tar.Header{Name: name, PAXRecords: content("x")} }
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(Pack(s.T, file("f")))
	_ = z.Close()
	whole := Pack(s.T, file("f"))
	deep := strings.Repeat("d/", 20) + "f"
	for name, c := range map[string]struct {
		data   []byte
		limits files.Limits
		text   string
	}{
		"absolute":                   {Pack(s.T, file("/etc/f")), files.Limits{}, "/etc/f is an absolute name"},
		"up":                         {Pack(s.T, file("../f")), files.Limits{}, "../f leads out"},
		"up later":                   {Pack(s.T, file("a/../../f")), files.Limits{}, "leads out"},
		"entries":                    {Pack(s.T, file("1"), file("2"), file("3")), files.Limits{Entries: 2}, "more than 2 entries"},
		"bytes":                      {Pack(s.T, file("1"), file("2"), file("3")), files.Limits{Bytes: 2}, "more than 2 bytes"},
		"depth":                      {Pack(s.T, file(deep)), files.Limits{Depth: 20}, "deeper than 20"},
		"device":                     {Pack(s.T, tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}), files.Limits{}, "null is a device"},
		"fifo":                       {Pack(s.T, tar.Header{Name: "p", Typeflag: tar.TypeFifo}), files.Limits{}, "p is a device or a FIFO"},
		"hard link":                  {Pack(s.T, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), files.Limits{}, "absolute"},
		"hard link up":               {Pack(s.T, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../f"}), files.Limits{}, "leads out"},
		"hard link to what is there": {Pack(s.T, tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "kept"}), files.Limits{}, "no file of the archive"},
		"hard link to a link": {Pack(s.T, file("t"), tar.Header{Name: "t", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
			tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "t"}), files.Limits{}, "no file of the archive"},
		"top":     {Pack(s.T, tar.Header{Name: ".", Typeflag: tar.TypeSymlink, Linkname: "/"}), files.Limits{}, "symlink for the directory"},
		"cut":     {whole[:700], files.Limits{}, "cut"},
		"no end":  {whole[:1024], files.Limits{}, "cut after 1024 bytes"},
		"nothing": {nil, files.Limits{}, "cut after 0 bytes"},
		"zipped":  {zipped.Bytes(), files.Limits{}, "is compressed"},
		"noise":   {bytes.Repeat([]byte("noise"), 1000), files.Limits{}, "does not begin like one"},
	} {
		s.Run(name, func(t *testing.T) {
			s := &suite{T: t, Place: s.Place}
			s.in("rm -rf to; mkdir to; echo kept > to/kept")
			_, err := s.FS.Upload(s.Context(), s.path("to"), bytes.NewReader(c.data), c.limits)
			s.is(err, corral.ErrInvalid, c.text)
			if got := s.in(`cat to/kept; find to -type l -name l; ls -A | grep -v '^to$' || :`); got != "kept\n" {
				s.Errorf("there is %q", got)
			}
		})
	}
}

func download(s *suite) {
	s.in(`mkdir -p top/d top/empty; echo one > top/d/f; chmod 6711 top/d/f; touch -t 202001020304.05 top/d/f; ln -s /etc/passwd top/l; ln -s nowhere top/m`)
	var b bytes.Buffer
	got, err := s.FS.Download(s.Context(), s.path("top"), &b, files.Limits{})
	if err != nil || got != (files.Totals{Entries: 6, Bytes: 4}) {
		s.Errorf("%+v, %v", got, err)
	}
	in := unpack(s.T, &b)
	if len(in) != 6 || in["top/d/f"].content != "one\n" || in["top/l"].header.Linkname != "/etc/passwd" || in["top/empty/"].header == nil {
		s.Fatalf("the archive has %+v", in)
	}
	if h := in["top/d/f"].header; h.Mode != 0o711 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Second() != 5 {
		s.Errorf("%+v", h)
	}
	b.Reset()
	if _, err := s.FS.Download(s.Context(), s.path("top/d/f"), &b, files.Limits{}); err != nil {
		s.Error(err)
	}
	if in := unpack(s.T, &b); len(in) != 1 || in["f"].content != "one\n" {
		s.Errorf("the archive has %+v", in)
	}
	b.Reset()
	if _, err := s.FS.Download(s.Context(), s.path("top/l"), &b, files.Limits{}); err != nil {
		s.Error(err)
	}
	if in := unpack(s.T, &b); in["l"].header == nil || in["l"].header.Linkname != "/etc/passwd" {
		s.Errorf("the archive has %+v", in)
	}
}

func downloadLimits(s *suite) {
	s.in(`mkdir -p d/e; echo 1 > d/a; echo 2 > d/b; mkdir sparse; dd if=/dev/null of=sparse/f bs=1 seek=8589934592 2>/dev/null`)
	for _, c := range []struct {
		name   string
		limits files.Limits
		text   string
	}{
		{"d", files.Limits{Entries: 3}, "more than 3"},
		{"d", files.Limits{Bytes: 3}, "more than 3 bytes"},
		{"sparse", files.Limits{}, "more than 4294967296 bytes"},
	} {
		var b counter
		_, err := s.FS.Download(s.Context(), s.path(c.name), &b, c.limits)
		s.is(err, corral.ErrInvalid, c.text)
		if b > 1<<20 {
			s.Errorf("%d bytes were written", b)
		}
	}
	if got := s.read("sparse/f", files.ReadOptions{Offset: 1 << 32, Limit: 5}); got != "\x00\x00\x00\x00\x00" {
		s.Errorf("%q", got)
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
