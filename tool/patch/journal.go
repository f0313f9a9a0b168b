package patch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/corral-exec/corral"
)

// How a patch is applied as one
//
// There is no system call that changes several files at once, so a patch keeps
// an undo journal: a directory beside the files, on their file system.
//
//  1. The new files and the missing directories are made in the journal. Files that
//     will be replaced or deleted get a second name there.
//  2. The record of all changes is written, last.
//  3. Everything is put in its place, each file with one rename or link.
//  4. The record is removed. At this moment the patch is applied.
//  5. The rest of the journal is removed.
//
// While there is a record, its changes can be undone, from any point between 2 and 4,
// and any number of times. Without a record there is nothing to undo. So the same code
// (undo) undoes a patch that failed and a patch during which the program was killed. It
// never overwrites changes that another program made meanwhile. Everything is on the
// disk before the next step relies on it.
//
// A crash undoes a patch rather than completes it. That is simple for the caller: a call
// without an answer changed nothing, and can be repeated.

const (
	recordName = "record"      // in the journal
	recordNew  = "record.part" // until it is complete

	recordVersion = 1
	maxRecord     = 32 << 20 // bytes
)

// record is the data for undo.
type record struct {
	Version int            `json:"version"`
	Changes []recordChange `json:"changes"`
	Dirs    []string       `json:"dirs"` // made by the patch, from the outermost
}

type recordChange struct {
	Name string `json:"name"`
	Was  bool   `json:"was"`           // there was a file, with the name old-<i> in the journal
	New  string `json:"new,omitempty"` // SHA-256 of the new content; empty: deleted
}

// settleLimit bounds the time for putting a patch in place or undoing it. The call's
// context does not end these.
var settleLimit = time.Minute // changed by tests

// A journal is the journal of one patch.
type journal struct {
	ws   workspace
	name string
	rec  record

	files   []*file // of rec.Changes, while the patch is applied
	touched []bool  // which of them have been changed
}

func (j *journal) in(kind string, i int) string {
	return j.name + "/" + kind + "-" + strconv.Itoa(i)
}

// commit applies a plan, or changes nothing and returns an error. There may be a warning
// about an applied patch.
func (pl *plan) commit(ctx context.Context) (warning string, err error) {
	var changes []*file
	for _, f := range pl.order {
		if f.changes() {
			changes = append(changes, f)
		}
	}
	if len(changes) == 0 {
		return "", nil
	}
	j := &journal{ws: pl.ws, name: journalPrefix + strings.TrimPrefix(corral.NewID(), ".")}
	j.rec = record{Version: recordVersion, Dirs: []string{}}
	j.files, j.touched = changes, make([]bool, len(changes))
	dirs := map[string]owner{}
	for _, f := range changes {
		c := recordChange{Name: f.name, Was: f.before.kind != kindAbsent}
		if f.exists {
			c.New = hash(f.data)
			for _, dir := range f.parent {
				if _, known := dirs[dir]; !known {
					dirs[dir] = f.dir.heirs
					j.rec.Dirs = append(j.rec.Dirs, dir)
				}
			}
		}
		j.rec.Changes = append(j.rec.Changes, c)
	}
	slices.Sort(j.rec.Dirs) // a directory comes before its members

	if err := pl.ws.mkdir(ctx, j.name, 0o700, anyOwner); err != nil {
		return "", j.cannot("make a directory for the new files", err)
	}
	// From here on, there is a journal to remove.
	err = j.stage(ctx, dirs)
	settled, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	if err != nil {
		return "", errors.Join(err, j.clean(settled))
	}
	err = j.put(settled)
	if err == nil {
		if err = j.ws.remove(settled, j.name+"/"+recordName); err != nil {
			err = j.cannot("remove the record of the journal", err)
		}
	}
	if err != nil {
		undone, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit) // the time may have been why
		defer cancel()
		if left := j.undo(undone); left != nil {
			return "", corral.Errorf(corral.ErrLost, "look at the files; the next patch tries again to undo this one", "the patch failed, and cannot be undone now: %w", fmt.Errorf("%w; then: %w", err, left))
		}
		return "", err
	}
	if err := errors.Join(j.ws.sync(settled, j.name), j.clean(settled)); err != nil {
		return fmt.Sprintf("The patch is applied, but the directory %s is left, which the next patch removes: %v.", j.name, err), nil
	}
	return "", nil
}

// stage does steps 1 and 2: it changes only the journal.
func (j *journal) stage(ctx context.Context, dirs map[string]owner) error {
	for i, dir := range j.rec.Dirs {
		if err := j.ws.mkdir(ctx, j.in("dir", i), byUmask, dirs[dir]); err != nil {
			return j.cannot("make the directory "+dir, err)
		}
	}
	for i, f := range j.files {
		if f.exists {
			if err := j.ws.create(ctx, j.in("new", i), f.data, f.perm, f.owner); err != nil {
				return j.cannot("write "+f.name, err)
			}
		}
	}
	for i, f := range j.files {
		if j.rec.Changes[i].Was {
			if err := j.save(ctx, i, f); err != nil {
				return err
			}
		}
	}
	text, err := json.Marshal(j.rec)
	if err != nil {
		return err
	}
	if len(text) > maxRecord {
		return corral.Errorf(corral.ErrInvalid, "make several patches of it", "the paths of the patch have %d bytes together", len(text))
	}
	part, whole := j.name+"/"+recordNew, j.name+"/"+recordName
	if err := j.ws.create(ctx, part, text, 0o600, anyOwner); err != nil {
		return j.cannot("write the journal", err)
	}
	if err := j.ws.sync(ctx, j.name); err != nil { // the record relies on these names
		return j.cannot("write the journal", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.ws.rename(ctx, part, whole); err != nil {
		return j.cannot("write the journal", err)
	}
	return nil
}

// save gives a file that will be replaced or deleted a name in the journal, and checks that
// it has not changed since the plan was made.
func (j *journal) save(ctx context.Context, i int, f *file) error {
	saved := j.in("old", i)
	switch err := j.ws.link(ctx, f.name, saved); {
	case errors.Is(err, fs.ErrNotExist):
		return changed(f.name)
	case noLinks(err):
		return nil // put will rename it instead
	case err != nil:
		return j.cannot("save "+f.name, err)
	}
	return j.unchanged(ctx, saved, f)
}

// unchanged checks that a file has not changed since the plan was made.
func (j *journal) unchanged(ctx context.Context, name string, f *file) error {
	if !f.read {
		stats, err := j.ws.stat(ctx, name)
		if err != nil {
			return j.cannot("look at "+f.name, err)
		}
		if s := stats[0]; s.kind != f.before.kind || s.id != f.before.id {
			return changed(f.name)
		}
		return nil
	}
	content, st, err := j.ws.read(ctx, name, MaxFile)
	switch {
	case errors.Is(err, fs.ErrInvalid), errors.Is(err, fs.ErrNotExist), err == nil && (st.id != f.before.id || st.perm != f.before.perm || !bytes.Equal(content, f.was)):
		return changed(f.name)
	case err != nil:
		return j.cannot("read "+f.name, err)
	}
	return nil
}

// noLinks reports whether err means that hard links are not possible, on the file system or
// by a rule of the machine.
func noLinks(err error) bool {
	for _, e := range []error{syscall.EPERM, syscall.EMLINK, syscall.ENOSYS, errors.ErrUnsupported} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// put does step 3. Deletions come first and additions last.
func (j *journal) put(ctx context.Context) error {
	if err := j.ws.sync(ctx, j.name); err != nil {
		return j.cannot("write the journal", err)
	}
	dirs := map[string]bool{}
	for i, dir := range j.rec.Dirs {
		dirs[path.Dir(dir)] = true
		if err := j.ws.rename(ctx, j.in("dir", i), dir); err != nil {
			return j.cannot("make the directory "+dir, err)
		}
	}
	for i, c := range j.rec.Changes {
		dirs[path.Dir(c.Name)] = true
		if err := j.place(ctx, i, c); err != nil {
			return err
		}
	}
	for dir := range dirs {
		if err := j.ws.sync(ctx, dir); err != nil {
			return j.cannot("write the directory "+dir, err)
		}
	}
	return nil
}

// place puts one file in its place.
func (j *journal) place(ctx context.Context, i int, c recordChange) error {
	saved, fresh := j.in("old", i), j.in("new", i)
	if !c.Was {
		return j.placeNew(ctx, i, c)
	}
	stats, err := j.ws.stat(ctx, saved, c.Name)
	if err != nil {
		return j.cannot("look at "+c.Name, err)
	}
	hasSaved := stats[0].kind != kindAbsent
	if stats[1].kind == kindAbsent || hasSaved && stats[0].id != stats[1].id {
		return changed(c.Name)
	}
	j.touched[i] = true
	if !hasSaved {
		if err := j.ws.rename(ctx, c.Name, saved); err != nil {
			return j.cannot("save "+c.Name, err)
		}
		if err := j.unchanged(ctx, saved, j.files[i]); err != nil {
			return err
		}
	}
	switch {
	case c.New != "":
		err = j.ws.rename(ctx, fresh, c.Name)
	case hasSaved:
		err = j.ws.remove(ctx, c.Name)
	}
	if err != nil {
		return j.cannot("change "+c.Name, err)
	}
	return nil
}

// placeNew puts a new file in its place.
func (j *journal) placeNew(ctx context.Context, i int, c recordChange) error {
	fresh := j.in("new", i)
	j.touched[i] = true
	err := j.ws.link(ctx, fresh, c.Name)
	if noLinks(err) {
		var stats []stat
		if stats, err = j.ws.stat(ctx, c.Name); err == nil {
			if err = fs.ErrExist; stats[0].kind == kindAbsent {
				err = j.ws.rename(ctx, fresh, c.Name)
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return changed(c.Name)
	case err != nil:
		return j.cannot("add "+c.Name, err)
	}
	return nil
}

// undo takes back the changes of a record, as far as they were made, and removes the
// journal. Files that other programs wrote since stay, and a keptError names them; the
// journal is removed all the same.
func (j *journal) undo(ctx context.Context) error {
	var kept []string
	dirs := map[string]bool{}
	for i, c := range slices.Backward(j.rec.Changes) {
		if j.touched != nil && !j.touched[i] {
			continue
		}
		dirs[path.Dir(c.Name)] = true
		mine, err := j.takeBack(ctx, i, c)
		if err != nil {
			return fmt.Errorf("cannot restore %s: %w", c.Name, err)
		}
		if !mine {
			kept = append(kept, c.Name)
		}
	}
	for i, dir := range slices.Backward(j.rec.Dirs) {
		stats, err := j.ws.stat(ctx, dir, j.in("dir", i))
		if err == nil && stats[0].kind == kindDir && stats[1].kind == kindAbsent { // the patch put it there
			err = j.ws.remove(ctx, dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !inUse(err) {
			return fmt.Errorf("cannot remove the directory %s: %w", dir, err)
		}
		delete(dirs, dir)
		dirs[path.Dir(dir)] = true
	}
	for dir := range dirs {
		if err := j.ws.sync(ctx, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot write the directory %s: %w", dir, err)
		}
	}
	if err := j.ws.remove(ctx, j.name+"/"+recordName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return j.cannot("remove the journal", err)
	}
	if err := errors.Join(j.ws.sync(ctx, j.name), j.clean(ctx)); err != nil {
		return err
	}
	if len(kept) > 0 {
		return keptError{kept}
	}
	return nil
}

// keptError names files that were not restored, since another program wrote to them.
type keptError struct{ names []string }

func (e keptError) Error() string {
	return "not restored, since another program changed them: " + strings.Join(e.names, ", ")
}

// takeBack undoes one change. mine is false if another program has changed the file since.
func (j *journal) takeBack(ctx context.Context, i int, c recordChange) (mine bool, err error) {
	saved, fresh := j.in("old", i), j.in("new", i)
	stats, err := j.ws.stat(ctx, c.Name, saved, fresh)
	if err != nil {
		return false, err
	}
	now, old, made := stats[0], stats[1], stats[2]
	ours := false // the file is the one that the patch put there
	if c.New != "" && now.kind == kindFile && (made.kind == kindAbsent || made.id == now.id) {
		content, _, err := j.ws.read(ctx, c.Name, MaxFile)
		if err != nil && !errors.Is(err, corral.ErrInvalid) && !errors.Is(err, fs.ErrInvalid) {
			return false, err
		}
		ours = err == nil && hash(content) == c.New
	}
	switch {
	case !c.Was && now.kind == kindAbsent:
		return true, nil
	case !c.Was && ours:
		return true, j.ws.remove(ctx, c.Name)
	case !c.Was:
		// It was there before the patch got to it, or has been changed since.
		return made.kind != kindAbsent && made.id != now.id, nil
	case old.kind == kindAbsent:
		return now.kind != kindAbsent, nil // the change was not made yet
	case now.id == old.id && now.kind != kindAbsent:
		return true, nil
	case now.kind == kindAbsent, ours:
		return true, j.ws.rename(ctx, saved, c.Name)
	}
	return false, nil
}

// clean removes a journal without a record.
func (j *journal) clean(ctx context.Context) error {
	names, err := j.ws.members(ctx, j.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return j.cannot("remove the journal", err)
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, gone(j.ws.remove(ctx, j.name+"/"+name)))
	}
	errs = append(errs, gone(j.ws.remove(ctx, j.name)))
	if err := errors.Join(errs...); err != nil {
		return j.cannot("remove the journal", err)
	}
	return nil
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// inUse reports whether err means that a directory was not removed because it is not empty,
// or is no directory any more.
func inUse(err error) bool {
	return errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTDIR)
}

// cannot is the error for a step of a patch that failed.
func (j *journal) cannot(what string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return corral.Errorf(corral.ErrUnavailable, "free some space", "cannot %s: %w", what, err)
	case errors.Is(err, syscall.EXDEV):
		return corral.Errorf(corral.ErrDenied, "use a command for it", "cannot %s: it is on another file system than the workspace: %w", what, err)
	case errors.Is(err, fs.ErrPermission):
		return corral.Errorf(corral.ErrDenied, "give this program write access to the workspace", "cannot %s: %w", what, err)
	case errors.Is(err, syscall.EROFS):
		return corral.Errorf(corral.ErrDenied, "give this program write access to the workspace", "cannot %s: the workspace is read-only: %w", what, err)
	}
	return fmt.Errorf("cannot %s: %w", what, err)
}

func hash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
