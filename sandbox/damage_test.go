package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
)

// Whatever bit of a record is another, and wherever it is cut: it says what it said, or
// the error names the damaged file.
func TestStoreDamaged(t *testing.T) {
	state := testdir.New(t)
	box := boxRecord{Version: storeVersion, Sandbox: "main", UID: 2_000_000_100, Box: Box{ID: "main-12345678", Container: "corral-main", Engine: "docker", Image: "debian:12", Created: now()}}
	if err := os.MkdirAll(sandboxDir(state, "main"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := saveBox(state, box); err != nil {
		t.Fatal(err)
	}
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Workspace: "w", Boxes: []string{box.ID}, Created: now()}, false); err != nil {
		t.Fatal(err)
	}
	if err := noteLife(boxDir(state, box.ID), func(l *life) { l.Ended = &engine.End{At: now(), Code: 3} }); err != nil {
		t.Fatal(err)
	}
	for file, read := range map[string]func() (any, error){
		filepath.Join(sandboxDir(state, "main"), sandboxFile): func() (any, error) { return loadSandbox(state, "main") },
		boxPath(state, box.ID):                                func() (any, error) { return loadBox(state, box.ID) },
		filepath.Join(boxDir(state, box.ID), lifeFile):        func() (any, error) { return loadLife(boxDir(state, box.ID)) },
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			damagetest.File(t, file, filepath.Base(file), func(a, b any) bool { return reflect.DeepEqual(a, b) }, read)
		})
	}
}

func TestEnvOfAnImage(t *testing.T) {
	state := t.TempDir()
	box := boxRecord{Version: storeVersion, Box: Box{ID: "main-12345678", Image: "big:1"}}
	if err := saveBox(state, box); err != nil {
		t.Fatal(err)
	}
	many := make([]string, maxEnv/16)
	for i := range many {
		many[i] = fmt.Sprintf("A%05d=12345678", i)[:15]
	}
	if err := box.noteEnv(state, many); err != nil {
		t.Fatal(err)
	}
	if rec, err := loadBox(state, box.ID); err != nil || !slices.Equal(rec.Env, many) {
		t.Errorf("noted %d variables, %v", len(rec.Env), err)
	}
	err := box.noteEnv(state, append(many, "B="))
	if !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), "the image big:1 have 131074 bytes, of at most 131072") {
		t.Errorf("too much: %v", err)
	}
}
