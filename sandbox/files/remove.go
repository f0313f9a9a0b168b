package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/corral-exec/corral"
)

// Remove implements FS.
func (d Directory) Remove(ctx context.Context, name string, all bool) error {
	return d.do(ctx, "remove", name, true, func(t *tree, _, rel string) error {
		if rel == "." {
			return corral.Errorf(corral.ErrInvalid, "remove what is in it, or the sandbox", "the workspace itself cannot be removed")
		}
		p, err := t.locate(rel, false)
		if err != nil {
			return err
		}
		defer p.Close()
		s, err := p.lstat(p.base)
		if err != nil {
			return err
		}
		if s.typ != TypeDir {
			return p.remove(p.base, false)
		}
		if !all {
			return p.remove(p.base, true)
		}
		return removeTree(ctx, p.dir, p.base)
	})
}

const (
	// maxOpen is how many directories below one another are open at a time.
	maxOpen = 64
	// maxRounds is how many times a directory is emptied that is being filled
	// meanwhile.
	maxRounds = 8
)

// removeTree removes a directory in d with what is in it. It may be deeper than
// there are descriptors: what is too deep is moved up, into that directory itself, so
// that nothing of it is elsewhere when this is broken off.
func removeTree(ctx context.Context, d dir, base string) error {
	r := remover{ctx: ctx}
	return r.remove(d, base, 0)
}

type remover struct {
	ctx   context.Context
	top   dir      // that is removed, while it is emptied
	moved []string // into top
}

func (r *remover) remove(d dir, base string, level int) error {
	if level > maxOpen {
		up := ".corral-remove-" + rand.Text()
		allow(d, base) // a directory that moves is written to
		if err := d.rename(base, r.top, up); err != nil {
			return ignoreAbsent(err)
		}
		r.moved = append(r.moved, up)
		return nil
	}
	err := d.remove(base, true)
	for round := 0; errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist); round++ {
		if round == maxRounds {
			return err
		}
		if err = r.empty(d, base, level); err != nil {
			return err
		}
		err = d.remove(base, true)
	}
	return ignoreAbsent(err)
}

func (r *remover) empty(d dir, base string, level int) error {
	allow(d, base)
	sub, err := d.sub(base)
	if err != nil {
		return ignoreAbsent(err)
	}
	defer sub.Close()
	if level == 0 {
		r.top = sub
	}
	err = eachName(sub, func(name string) error { return r.member(sub, name, level) })
	for level == 0 && err == nil && len(r.moved) > 0 {
		next := r.moved[0]
		r.moved = r.moved[1:]
		err = r.remove(sub, next, 1)
	}
	return err
}

func (r *remover) member(d dir, name string, level int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	err := d.remove(name, false)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EPERM) || isKind(err) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return r.remove(d, name, level+1)
	}
	return ignoreAbsent(err)
}

func isKind(err error) bool {
	_, ok := errors.AsType[*kindError](err)
	return ok
}

// allow lets a directory's owner do all with it, whatever its mode is.
func allow(d dir, base string) {
	if s, err := d.lstat(base); err == nil && s.typ == TypeDir && s.mode&0o700 != 0o700 {
		// What fails here fails again, and with a better reason.
		_ = d.chmod(base, 0o700)
	}
}

// RemoveTree removes a directory of this machine with its content. That may have been
// made to prevent it, with directories that are deeper than paths and descriptors
// reach, or that no user may enter. It follows no link below dir. If dir is not
// there, the error is fs.ErrNotExist.
func RemoveTree(ctx context.Context, dir string) error {
	a, err := openAnchor(filepath.Dir(dir), false)
	if err != nil {
		return err
	}
	defer a.Close()
	d, err := a.walk(".")
	if err != nil {
		return err
	}
	defer d.Close()
	base := filepath.Base(dir)
	s, err := d.lstat(base)
	if err != nil {
		return err
	}
	if s.typ != TypeDir {
		return d.remove(base, false)
	}
	return removeTree(ctx, d, base)
}
