package files

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/corral-exec/corral"
)

// An outsideError is a symbolic link that leads out of the workspace.
type outsideError struct{ link, target string }

func (e *outsideError) Error() string {
	if e.link == "" {
		return "it leads out of the workspace"
	}
	return "the symbolic link " + show(e.link) + " leads out of the workspace, to " + show(e.target)
}

// A kindError is a file of a kind with which it cannot be done.
// What it is may not be known.
type kindError struct{ is, want Type }

func (e *kindError) Error() string {
	if e.is == "" {
		return "it is no " + string(e.want)
	}
	return "it is a " + string(e.is) + ", not a " + string(e.want)
}

// fail is why something could not be done with a file, as an error of the
// contract.
func fail(what, name string, err error) error { return (*local)(nil).fail(what, name, err) }

// fail is why something could not be done with a file of this machine, or of a
// sandbox if l is nil.
func (l *local) fail(what, name string, err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*corral.Error](err); known {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	outside, kind := (*outsideError)(nil), (*kindError)(nil)
	is := func(errnos ...error) bool {
		return slices.ContainsFunc(errnos, func(e error) bool { return errors.Is(err, e) })
	}
	as := func(k error, hint string) error {
		return corral.Errorf(k, hint, "cannot %s %s: %w", what, l.show(name), err)
	}
	inSandbox := func(hint string) string {
		if l != nil {
			return ""
		}
		return hint
	}
	switch {
	case errors.As(err, &outside):
		return as(corral.ErrDenied, "name what it leads to")
	case errors.As(err, &kind):
		return as(corral.ErrInvalid, "")
	case is(syscall.EROFS):
		return as(corral.ErrDenied, inSandbox("use the workspace, if the sandbox may write to it, or /tmp"))
	case is(fs.ErrNotExist, syscall.ENOTDIR):
		return corral.Errorf(corral.ErrNotFound, inSandbox("corral sandbox ls-files shows what is there"), "cannot %s %s: %w", what, l.show(name), syscall.ENOENT)
	case is(syscall.ENOTEMPTY):
		return as(corral.ErrConflict, "remove it with what is in it")
	case is(fs.ErrExist):
		return as(corral.ErrConflict, "")
	case is(fs.ErrPermission):
		return as(corral.ErrDenied, inSandbox("the sandbox's user has no permission; see the owner and the mode of the file and of the directories above it"))
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return as(corral.ErrUnavailable, "remove something first: there is no space left")
	case is(syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL, syscall.EFBIG, syscall.EISDIR, fs.ErrInvalid):
		return as(corral.ErrInvalid, "")
	case is(errors.ErrUnsupported):
		return as(errors.ErrUnsupported, "the file system that it is on cannot do that")
	case is(syscall.EAGAIN):
		return as(corral.ErrUnavailable, "try again: directories were renamed meanwhile")
	}
	return as(corral.ErrUnavailable, "")
}

// readOnly refuses a change.
func readOnly(root, what, name string) error {
	return corral.Errorf(corral.ErrDenied, "give the sandbox write access to it (workspaceAccess rw)",
		"The workspace %s is read-only; cannot %s %s", root, what, show(name))
}
