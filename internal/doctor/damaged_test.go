package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/corral-exec/corral/internal/state/journal"
)

func TestCheckDamaged(t *testing.T) {
	dir := t.TempDir()
	check(t, "none", Damaged(dir), OK, dir)
	check(t, "no directory", Damaged(filepath.Join(dir, "to come")), OK)
	var paths []string
	for i := range ShownAside + 2 {
		path := filepath.Join(dir, "journal"+journal.Infix+"20260101T000000Z-"+strconv.Itoa(i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	check(t, "some", Damaged(dir), Warn, append(paths[:ShownAside], " and 2 more", "docs/reference/state.md", "remove")...)
}
