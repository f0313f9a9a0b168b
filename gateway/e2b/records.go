package e2b

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
)

// Sandboxes, snapshots and volumes are kept alike: each is a file ID.json with a checksum.

// idsIn are the IDs of the files of a kind in a directory, which need not exist: those of a
// pattern, or all if it is nil.
func idsIn(dir, kind string, pattern func() *regexp.Regexp) ([]string, error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, f := range list {
		if id, ok := strings.CutSuffix(f.Name(), kind); ok && (pattern == nil || pattern().MatchString(id)) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func readRecord(file string, to any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return journal.Unseal(data, to)
}

// damaged is the error for a record that cannot be read.
func damaged(file, hint string, err error) error {
	return corral.Errorf(corral.ErrUnavailable, hint, "the file %s is damaged: %w", file, err)
}

// writeRecord makes the directory as well.
func writeRecord(file string, of any, o atomicfile.Options) error {
	data, err := journal.Seal(of)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, data, o)
}
