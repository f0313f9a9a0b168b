package sandbox

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/corral-exec/corral/internal/test/damagetest"
	"github.com/corral-exec/corral/internal/test/testdir"
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
	if err := noteLife(boxDir(state, box.ID), func(l *life) { l.Ended = &End{At: now(), Code: 3} }); err != nil {
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
