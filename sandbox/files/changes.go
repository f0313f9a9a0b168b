package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/corral-exec/corral"
)

// Changes are what differs in the root file system of a sandbox, whose commands are root,
// from its image: what was made or changed since Begin, but not what was removed. Scripts
// find it, by the time that the kernel notes for each file and that root cannot set; they
// take the find, sed and tar of GNU. Nothing of other file systems is in it: of the
// workspace, of volumes, of /tmp.
type Changes struct{ commands Commands }

// Changes are those of a sandbox. errors.ErrUnsupported if no commands can be run there.
func (s Sandbox) Changes() (Changes, error) {
	c, ok := s.Others.(Commands)
	if !ok {
		return Changes{}, corral.Errorf(errors.ErrUnsupported, "", "the root file system of this sandbox cannot be kept")
	}
	return Changes{c}, nil
}

// begun is a file whose time is that of Begin.
const begun = "/.corral/begun"

// Begin takes what is there now for the image's, unless that was done before.
func (c Changes) Begin(ctx context.Context) error {
	return c.fail("look at", c.commands.step().Feed(ctx, `[ -e "$1" ] || { mkdir -p "${1%/*}" && : >"$1"; }`, nil, begun))
}

// Save writes them as an archive, which only Restore understands, of limit bytes at most.
func (c Changes) Save(ctx context.Context, w io.Writer, limit int64) error {
	const text = `[ -e "$1" ] || { echo "$1 was removed, by which the changes are known" >&2; exit 1; }
	find / -maxdepth 0 -printf '' 2>/dev/null && sed -zn '' </dev/null 2>/dev/null && tar --version 2>/dev/null | grep -q GNU || { echo 'the image has not the find, sed and tar of GNU' >&2; exit 1; }
	cd / && find . -xdev -path ./.corral -prune -o -cnewer "$1" -printf '%D\t%p\0' |
	sed -zn "s/^$(stat -c %d /)	//p" |
	tar --null --no-recursion --numeric-owner -T - -cf - || [ $? -eq 1 ]` // 1: a file changed meanwhile
	return c.fail("keep", c.commands.stream().Stream(ctx, text, &bounded{w, limit}, begun))
}

// Restore makes them in another sandbox of the same image.
func (c Changes) Restore(ctx context.Context, r io.Reader) error {
	return c.fail("restore", c.commands.stream().Feed(ctx, `cd / && exec tar --numeric-owner -xpf -`, r))
}

func (Changes) fail(what string, err error) error {
	if err != nil {
		err = fmt.Errorf("cannot %s the root file system of the sandbox: %w", what, err)
	}
	return err
}

// bounded fails when more is written to it than it may take.
type bounded struct {
	io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		return 0, corral.Errorf(corral.ErrInvalid, "remove what is not needed", "it is too large")
	}
	b.left -= int64(len(p))
	return b.Writer.Write(p)
}
