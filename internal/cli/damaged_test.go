package cli

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/corral-exec/corral/internal/state/journal"
)

func TestCheckDamaged(t *testing.T) {
	dir := t.TempDir()
	check(t, "none", checkDamaged(dir), levelOK, dir)
	check(t, "no directory", checkDamaged(filepath.Join(dir, "to come")), levelOK)
	var paths []string
	for i := range shownAside + 2 {
		path := filepath.Join(dir, "journal"+journal.Infix+"20260101T000000Z-"+strconv.Itoa(i))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	check(t, "some", checkDamaged(dir), levelWarn, append(paths[:shownAside], " and 2 more", "docs/reference/state.md", "remove")...)
}
