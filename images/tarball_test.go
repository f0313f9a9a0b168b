package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
)

var testTime = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

func readTar(t *testing.T, archive []byte) map[string]*tar.Header {
	t.Helper()
	all := map[string]*tar.Header{}
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = h
	}
}

// readFiles has the contents of an archive's files.
func readFiles(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteTar(t *testing.T) {
	setuid := fileEntry("bin/su", 0o755, []byte("x"), testTime.Add(time.Hour))
	setuid.Mode = 0o6755
	setuid.Uname, setuid.Gname = "root", "root"
	entries := []entry{
		dirEntry("bin", 0o755, testTime.Add(-time.Hour+time.Millisecond)),
		setuid,
		linkEntry("bin/sh", "su", testTime),
		dirEntry("tmp", 0o777|fs.ModeSticky, testTime),
	}
	var out bytes.Buffer
	if err := writeTar(t.Context(), &out, entries, testTime); err != nil {
		t.Fatal(err)
	}
	all := readTar(t, out.Bytes())
	if h := all["bin/su"]; h == nil || h.Mode != 0o755 || !h.ModTime.Equal(testTime) || h.Uname != "" {
		t.Errorf("bin/su: %+v", h)
	}
	if h := all["bin/"]; h == nil || !h.ModTime.Equal(testTime.Add(-time.Hour)) {
		t.Errorf("bin/: %+v", h)
	}
	if h := all["tmp/"]; h == nil || h.Mode != 0o1777 {
		t.Errorf("tmp/: %+v", h)
	}
	if h := all["bin/sh"]; h == nil || h.Linkname != "su" {
		t.Errorf("bin/sh: %+v", h)
	}
}

func TestWriteTarFaults(t *testing.T) {
	grown := fileEntry("log", 0o644, []byte("longer than it was"), testTime)
	grown.Size = 4
	shrunk := fileEntry("log", 0o644, []byte("short"), testTime)
	shrunk.Size = 400
	for name, e := range map[string]entry{"grown": grown, "shrunk": shrunk} {
		err := writeTar(t.Context(), io.Discard, []entry{e}, testTime)
		if err == nil || !strings.HasPrefix(err.Error(), "archive /log: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := writeTar(ctx, io.Discard, []entry{grown}, testTime); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
