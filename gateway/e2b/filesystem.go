package e2b

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corral-exec/corral"
	pb "github.com/corral-exec/corral/gateway/e2b/envdpb"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/session"
)

// resolve is a path of a client: absolute, or below the home directory of its user.
func (c call) resolve(name string) string {
	switch home := c.home(); {
	case name == "~":
		name = home
	case strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case !strings.HasPrefix(name, "/"):
		name = home + "/" + name
	}
	return path.Clean(name)
}

// files are those of the sandbox of a call.
func (s *Server) files(c call) (files.FS, error) {
	if err := s.checkUser(c); err != nil {
		return nil, err
	}
	return s.opened.use(c.box.ID, func() (files.FS, error) { return s.cfg.Sandboxes.Files(c, c.box.Agent, c.box.ID) })
}

// onFiles does something with the files of the sandbox of a call.
func onFiles[Q, A any](s *Server, do func(call, files.FS, Q) (A, error)) func(call, Q) (A, error) {
	return func(c call, q Q) (none A, err error) {
		f, err := s.files(c)
		if err != nil {
			return none, err
		}
		return do(c, f, q)
	}
}

// openedLimit is for how long the way to the files of a sandbox is used again: to find it
// takes as long as most of what is done with a file.
const openedLimit = 5 * time.Second

// opened are ways to the files of sandboxes and of volumes, by ID.
type opened struct{ sync.Map }

type openedFS struct {
	files.FS
	until time.Time
}

// use returns a way that was found a moment ago, or else what open returns.
func (o *opened) use(id string, open func() (files.FS, error)) (files.FS, error) {
	kept, _ := o.Load(id)
	if f, ok := kept.(openedFS); ok && time.Now().Before(f.until) {
		return f.FS, nil
	}
	f, err := open()
	if err == nil {
		o.put(id, f)
	}
	return f, err
}

func (o *opened) put(id string, f files.FS) { o.Store(id, openedFS{f, time.Now().Add(openedLimit)}) }

var fileTypes = map[files.Type]pb.FileType{
	files.TypeFile: pb.FileType_FILE_TYPE_FILE, files.TypeDir: pb.FileType_FILE_TYPE_DIRECTORY, files.TypeLink: pb.FileType_FILE_TYPE_SYMLINK,
}

// accountName is the name of a user or a group in the sandbox, of a file: there are root
// and the sandbox's own, which is called as its home directory. Both are one where commands
// are root; then what is in that directory is called the user's.
func accountName(file string, id int) string {
	switch {
	case id == 0 && !(file == Home || strings.HasPrefix(file, Home+"/")):
		return rootName
	case id > 0 && id < 1000 || id == 65534:
		return strconv.Itoa(id)
	}
	return path.Base(Home)
}

// dirSize stands for the size of what is no file.
const dirSize = 4096

// entry describes a file. A link is described as the file that it leads to, as clients
// expect.
func entry(ctx context.Context, f files.FS, i files.Info) *pb.EntryInfo {
	e := &pb.EntryInfo{
		Name: path.Base(i.Path), Path: i.Path, Type: fileTypes[i.Type], Size: i.Size, Mode: uint32(i.Mode), Permissions: i.Permissions(),
		Owner: accountName(i.Path, i.UID), Group: accountName(i.Path, i.GID), ModifiedTime: timestamppb.New(i.ModTime),
		Metadata: metadataIn(i.Attributes),
	}
	if i.Type == files.TypeDir {
		e.Size = dirSize
	}
	if i.Type == files.TypeLink {
		target := targetOf(i)
		e.Permissions = "L" + e.Permissions[1:]              // as Go writes it
		if led, err := statLed(ctx, f, target); err == nil { // else it leads nowhere
			target, e.Type, e.Size, e.Mode, e.Metadata = led.Path, fileTypes[led.Type], led.Size, uint32(led.Mode), metadataIn(led.Attributes)
		}
		e.SymlinkTarget = &target
	}
	return e
}

// targetOf is the path that a link leads to, which may be another link.
func targetOf(i files.Info) string {
	if path.IsAbs(i.Target) {
		return i.Target
	}
	return path.Join(path.Dir(i.Path), i.Target)
}

// statLed describes what a path leads to, through links; or a link, if there are too many.
func statLed(ctx context.Context, f files.FS, name string) (i files.Info, err error) {
	for range 40 { // as Linux
		if i, err = f.Stat(ctx, name); err != nil || i.Type != files.TypeLink {
			break
		}
		name = targetOf(i)
	}
	return i, err
}

func entryAt(ctx context.Context, f files.FS, name string) (*pb.EntryResponse, error) {
	i, err := f.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	return &pb.EntryResponse{Entry: entry(ctx, f, i)}, nil
}

func stat(c call, f files.FS, q *pb.PathRequest) (*pb.EntryResponse, error) {
	return entryAt(c, f, c.resolve(q.GetPath()))
}

func makeDir(c call, f files.FS, q *pb.PathRequest) (*pb.EntryResponse, error) {
	name := c.resolve(q.GetPath())
	switch i, err := f.Stat(c, name); {
	case err == nil && i.Type == files.TypeDir:
		return nil, corral.Errorf(corral.ErrConflict, "", "directory already exists: %s", name)
	case err == nil:
		return nil, corral.Errorf(corral.ErrInvalid, "", "path already exists but it is not a directory: %s", name)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := f.Mkdir(c, name, files.MkdirOptions{Parents: true}); err != nil {
		return nil, err
	}
	return entryAt(c, f, name)
}

// move renames a file by mv, in the sandbox.
func (s *Server) move(c call, f files.FS, q *pb.MoveRequest) (*pb.EntryResponse, error) {
	from, to := c.resolve(q.GetSource()), c.resolve(q.GetDestination())
	if _, err := f.Stat(c, from); err != nil {
		return nil, err
	}
	if err := f.Mkdir(c, path.Dir(to), files.MkdirOptions{Parents: true}); err != nil {
		return nil, err
	}
	if err := s.run(c, "mv", "-T", "--", from, to); err != nil {
		return nil, err
	}
	return entryAt(c, f, to)
}

// runLimit bounds a program that is run for a call.
const runLimit = time.Minute

// run runs a program in the sandbox as a session that is forgotten when it has ended.
func (s *Server) run(c call, args ...string) error {
	begun, err := s.cfg.Sessions.Agent(c.box.Agent).Begin(c, session.Options{Background: true, Command: corral.Command{
		Args: args, Host: corral.HostSandbox, Timeout: runLimit, MergeStderr: true,
	}})
	if err != nil {
		return err
	}
	exit, err := begun.Wait(c)
	if err != nil {
		return err
	}
	said, _ := begun.Tail(c, 500) // what went wrong is known without it
	if err := begun.Remove(c); err != nil {
		return err
	}
	if !exit.Success() {
		return corral.Errorf(corral.ErrUnavailable, "", "%s failed with %s: %s", args[0], exit, said)
	}
	return nil
}

// Bounds of a list.
const (
	maxDepth    = 64
	maxEntries  = 20_000
	bytesOfEach = 256 // of names and attributes of an entry, on average
)

func listDir(c call, f files.FS, q *pb.ListDirRequest) (*pb.ListDirResponse, error) {
	asked := c.resolve(q.GetPath())
	dir, err := statLed(c, f, asked)
	if err != nil {
		return nil, err
	}
	if dir.Type != files.TypeDir {
		return nil, corral.Errorf(corral.ErrInvalid, "", "path is not a directory: %s", dir.Path)
	}
	a := &pb.ListDirResponse{}
	list, err := listTree(c, f, dir.Path, q.GetDepth())
	if err != nil {
		return nil, err
	}
	for _, i := range list {
		e := entry(c, f, i)
		e.Path = path.Join(asked, strings.TrimPrefix(e.Path, dir.Path))
		a.Entries = append(a.Entries, e)
	}
	return a, nil
}

// listTree lists what is in a directory, and so many levels of directories in it.
func listTree(ctx context.Context, f files.FS, dir string, depth uint32) (list []files.Info, err error) {
	err = walk(ctx, f, dir, max(int(min(depth, maxDepth)), 1), atMost(maxEntries, dir, func(i files.Info) { list = append(list, i) }))
	return list, err
}

// atMost calls take for files, until there are too many.
func atMost(n int, dir string, take func(files.Info)) func(files.Info) error {
	most, left := n, n*bytesOfEach
	return func(i files.Info) error {
		left -= len(i.Path) + len(i.Target)
		for name, value := range i.Attributes {
			left -= len(name) + len(value)
		}
		if n--; n < 0 || left < 0 {
			return corral.Errorf(corral.ErrInvalid, "ask for less of it", "there are more than %d files in %s, or their names have more than %d bytes", most, dir, most*bytesOfEach)
		}
		take(i)
		return nil
	}
}

// walk visits what is in a directory, and so many levels of directories in it, by the order
// of names.
func walk(ctx context.Context, f files.FS, dir string, depth int, visit func(files.Info) error) error {
	o := files.ListOptions{Limit: files.MaxPage}
	for {
		page, err := f.List(ctx, dir, o)
		if err != nil {
			return err
		}
		for _, i := range page.Entries {
			if err := visit(i); err != nil {
				return err
			}
			if i.Type == files.TypeDir && depth > 1 {
				// One that is gone or a file by now, or may not be read, has nothing in it.
				err := walk(ctx, f, i.Path, depth-1, visit)
				if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, corral.ErrDenied) {
					if now, serr := f.Stat(ctx, i.Path); serr != nil || now.Type == files.TypeDir {
						return err
					}
				}
			}
		}
		if page.Next == "" {
			return nil
		}
		o.After = page.Next
	}
}

func remove(c call, f files.FS, q *pb.PathRequest) (*emptypb.Empty, error) {
	name := c.resolve(q.GetPath())
	if slices.Contains([]string{"/", Home}, name) {
		return nil, corral.Errorf(corral.ErrInvalid, "remove what is in it", "%s cannot be removed", name)
	}
	if err := f.Remove(c, name, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}
