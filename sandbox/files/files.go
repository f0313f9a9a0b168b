package files

import (
	"context"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
)

// An FS is files of a sandbox. Its methods may be called from any goroutine.
//
// Errors are corral.ErrNotFound (and fs.ErrNotExist) for what does not exist,
// corral.ErrDenied for what the sandbox's user may not do, for a workspace that
// is read-only and for links that lead out of it, corral.ErrConflict (and
// fs.ErrExist) for what is there already, corral.ErrInvalid for paths and
// archives that make no sense, for the wrong kind of file and for limits, and
// corral.ErrUnavailable for a full disk, or a sandbox that does not answer.
type FS interface {
	// Stat describes a file. It does not follow name if that is a link.
	Stat(ctx context.Context, name string) (Info, error)

	// List describes what is in a directory, in the order of the names' bytes,
	// without "." and "..", page by page.
	List(ctx context.Context, dir string, o ListOptions) (Page, error)

	// Read copies a regular file, or a part of it, to what to returns when it
	// is told what the file is. An error of to ends the reading.
	Read(ctx context.Context, name string, o ReadOptions, to func(Info) (io.Writer, error)) error

	// Write makes a regular file of what r yields, in the place of the regular
	// file that has the name. Where name is a link, what it leads to is
	// written. Readers of the old file keep the old one.
	Write(ctx context.Context, name string, r io.Reader, o WriteOptions) (Info, error)

	// Mkdir makes a directory.
	Mkdir(ctx context.Context, name string, o MkdirOptions) error

	// Remove removes a file, a link (not what it leads to) or an empty
	// directory; with all, also a directory with what is in it.
	Remove(ctx context.Context, name string, all bool) error

	// Upload unpacks a tar archive in a directory that exists.
	Upload(ctx context.Context, dir string, r io.Reader, l Limits) (Totals, error)

	// Download writes a tar archive of a file or a directory with all that is
	// in it, not following links. Names in it begin with the last element of
	// name, or with "." for the workspace itself and for "/".
	Download(ctx context.Context, name string, w io.Writer, l Limits) (Totals, error)
}

// Info describes a file.
type Info struct {
	// Path is where it is in the sandbox. In JSON it is as much of it as is
	// UTF-8; PathBytes has all of a path that is not.
	Path      string `json:"path"`
	PathBytes []byte `json:"pathBytes,omitempty"`

	Type    Type      `json:"type"`
	Size    int64     `json:"size"` // bytes, of a regular file; otherwise it means nothing
	Mode    Mode      `json:"mode"`
	Setuid  bool      `json:"setuid,omitempty"`
	Setgid  bool      `json:"setgid,omitempty"`
	Sticky  bool      `json:"sticky,omitempty"`
	UID     int       `json:"uid"` // as in the sandbox
	GID     int       `json:"gid"`
	ModTime time.Time `json:"modTime"`          // to the second
	Target  string    `json:"target,omitempty"` // of a link

	// Attributes are the extended attributes of users that a file has: what Linux calls
	// user.NAME. They are told by Stat, List and Write, of files in a workspace that
	// this machine sees, if they are UTF-8 and have at most MaxAttributes bytes.
	Attributes map[string]string `json:"attributes,omitempty"`
}

func newInfo(name string) Info {
	i := Info{Path: name}
	if !utf8.ValidString(name) {
		i.PathBytes = []byte(name)
	}
	return i
}

// setSpecial takes the bits above the permissions, as chmod counts them.
func (i *Info) setSpecial(mode uint32) {
	i.Setuid, i.Setgid, i.Sticky = mode&0o4000 != 0, mode&0o2000 != 0, mode&0o1000 != 0
}

// Permissions are type and mode as ls -l shows them: drwxrwxrwt. Which kind of
// device one is, is not known: they are shown as c, which those of a sandbox are.
func (i Info) Permissions() string {
	letter, ok := map[Type]byte{TypeFile: '-', TypeDir: 'd', TypeLink: 'l', TypeFIFO: 'p', TypeSocket: 's', TypeDevice: 'c'}[i.Type]
	if !ok {
		letter = '?'
	}
	text := []byte("?rwxrwxrwx")
	text[0] = letter
	for n := range 9 {
		if i.Mode&(0o400>>n) == 0 {
			text[1+n] = '-'
		}
	}
	for _, special := range []struct {
		set         bool
		at          int
		with, alone byte
	}{{i.Setuid, 3, 's', 'S'}, {i.Setgid, 6, 's', 'S'}, {i.Sticky, 9, 't', 'T'}} {
		switch {
		case special.set && text[special.at] == 'x':
			text[special.at] = special.with
		case special.set:
			text[special.at] = special.alone
		}
	}
	return string(text)
}

// Type is a kind of file.
type Type string

// What there is in a file system.
const (
	TypeFile    Type = "file"
	TypeDir     Type = "directory"
	TypeLink    Type = "symlink"
	TypeFIFO    Type = "fifo"
	TypeSocket  Type = "socket"
	TypeDevice  Type = "device" // character or block
	typeHard    Type = "hard link"
	typeUnknown Type = "unknown"
)

// Mode is the permission bits of a file, as text in octal: "0644".
type Mode uint32

func (m Mode) String() string { return "0" + strconv.FormatUint(uint64(m), 8) }

// MarshalText is String.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads an octal number up to 777.
func (m *Mode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > uint64(permBits) {
		return corral.Errorf(corral.ErrInvalid, "write it in octal, like 0644", "%.20q are no permissions of a file", text)
	}
	*m = Mode(n)
	return nil
}

const permBits Mode = 0o777

// ListOptions say which page of a list is wanted.
type ListOptions struct {
	After string // Page.Next of the page before; empty: the first
	Limit int    // entries; 0: DefaultPage, at most MaxPage
}

// Sizes of pages.
const (
	DefaultPage = 1000
	MaxPage     = 10000
)

// Page is part of a list.
type Page struct {
	Entries []Info `json:"entries"`
	Next    string `json:"next,omitempty"` // empty: this is the last page
}

// ReadOptions say which part of a file is wanted.
type ReadOptions struct {
	Offset int64
	Limit  int64 // bytes; 0: to the end that the file had when it was opened, or if it seemed empty to its end
}

// WriteOptions say how a file is written.
type WriteOptions struct {
	Mode    Mode  // 0: that of the file that is replaced, or 0644
	Parents bool  // directories that the path lacks are made
	New     bool  // a file that is there already is an error
	Limit   int64 // bytes; 0: that of DefaultLimits
	// Volatile: the file need not be on the disk when the call returns. After a power
	// cut it may be the old one, or have no content.
	Volatile bool
	// Attributes are the extended attributes of users that the file gets, without
	// "user."; see Info. It loses those that it had. Where files have none, it is
	// errors.ErrUnsupported.
	Attributes map[string]string
}

// MkdirOptions say how a directory is made.
type MkdirOptions struct {
	Mode    Mode // 0: 0755
	Parents bool // those that the path lacks are made, and one that is there already is no error
}

// Limits bound an archive. What is 0 is that of DefaultLimits.
type Limits struct {
	Bytes   int64 // of all files together, unpacked
	Entries int
	Depth   int // of directories in directories
}

// DefaultLimits are those of what says nothing else.
var DefaultLimits = Limits{Bytes: 4 << 30, Entries: 200_000, Depth: 128}

// names is how many bytes the names of all entries may have together: hardly any tree has
// names of 320 bytes on average.
func (l Limits) names() int { return 64<<10 + 320*l.Entries }

func (l Limits) orDefault() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultLimits.Bytes
	}
	if l.Entries <= 0 {
		l.Entries = DefaultLimits.Entries
	}
	if l.Depth <= 0 {
		l.Depth = DefaultLimits.Depth
	}
	return l
}

// Totals are what an archive had, or how far it came.
type Totals struct {
	Entries int   `json:"entries"`
	Bytes   int64 `json:"bytes"`   // of files
	Skipped int   `json:"skipped"` // devices, FIFOs and sockets that were left out
}
