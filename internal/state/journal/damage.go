package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/lazy"
)

// Damage holds the unreadable parts of a file.
type Damage struct {
	Pieces [][]byte
}

// Add notes a piece of the file.
func (d *Damage) Add(piece []byte) { d.Pieces = append(d.Pieces, bytes.Clone(piece)) }

// Any reports whether there is damage.
func (d *Damage) Any() bool { return len(d.Pieces) > 0 }

// Size returns the size of all pieces, in bytes.
func (d *Damage) Size() (n int) {
	for _, p := range d.Pieces {
		n += len(p)
	}
	return n
}

var named = lazy.Regexp(`^[SER] ([0-9A-Za-z._-]{1,64}) |"id":"([0-9A-Za-z._-]{1,64})"`)

// IDs returns the IDs that can still be read in the pieces. It is a guess: an ID may be
// damaged itself.
func (d *Damage) IDs() []string {
	var ids []string
	for _, p := range d.Pieces {
		for _, m := range named().FindAllSubmatch(p, maxIDs) {
			id := string(m[1]) + string(m[2])
			if corral.ValidateID(id) == nil && !slices.Contains(ids, id) && len(ids) < maxIDs {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// maxIDs bounds a guess.
const maxIDs = 1000

// Infix is in the name of a file with damaged pieces, after the name of their source.
const Infix = ".damaged-"

// Keep writes the pieces into a new file beside their source, and returns its name. The
// file is on disk when Keep returns.
func (d *Damage) Keep(dir *os.Root, name string) (string, error) {
	return KeepAside(dir, name, append(bytes.Join(d.Pieces, []byte{'\n'}), '\n'))
}

// KeepAside writes the content of a file into a new one beside it. It overwrites none.
func KeepAside(dir *os.Root, name string, content []byte) (aside string, err error) {
	base := name + Infix + time.Now().UTC().Format("20060102T150405Z")
	for n := 0; ; n++ {
		if aside = base; n > 0 {
			aside = fmt.Sprintf("%s-%d", base, n)
		}
		f, err := dir.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) && n < 10000 {
			continue
		}
		if err == nil {
			_, err = f.Write(content)
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err != nil {
			return "", fmt.Errorf("cannot keep what is damaged aside: %w", err)
		}
		return filepath.Join(dir.Name(), aside), nil
	}
}
