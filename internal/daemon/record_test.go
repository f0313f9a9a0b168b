package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/damagetest"
)

func TestGatewayRecordDamaged(t *testing.T) {
	dir := t.TempDir()
	r := Record{PID: 7, Version: "v1", StartedAt: time.Now().UTC(), Socket: "/s", Listen: []string{"127.0.0.1:1"}, Sandbox: ModeAll, Image: "debian:12"}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	damagetest.File(t, filepath.Join(dir, recordFile), recordFile, func(a, b *Record) bool { return reflect.DeepEqual(a, b) },
		func() (*Record, error) { return ReadRecord(dir) })
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	if r, err := ReadRecord(dir); r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
	want := Record{PID: 7, Version: "v1", StartedAt: time.Unix(1, 0).UTC(), Socket: "/s", Sandbox: "all", AllowElevated: true, Workspace: "/w"}
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&want, got); d != "" {
		t.Error(d)
	}
	if err := removeRecord(dir, 8); err != nil { // another's
		t.Error(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	if err := removeRecord(dir, 7); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "{", strings.Repeat(" ", maxRecord+1)} {
		if err := os.WriteFile(filepath.Join(dir, recordFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRecord(dir); !errors.Is(err, corral.ErrUnavailable) || corral.Hint(err) == "" {
			t.Errorf("%.5q: %v", text, err)
		}
	}
}
