package e2b

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

// A placement is where the files of a step COPY go: of src, which a client has packed into
// an archive, to dst, which is absolute.
type placement struct {
	prefix string // of names in the archive; what is behind it is the name below dst
	into   bool   // dst is a directory, also for a single file
	dst    string
	mode   int64 // of files; 0: as they have it
}

func newPlacement(src, dst, mode, dir string) (p placement, err error) {
	p.into = strings.HasSuffix(dst, "/") || dst == "." || dst == ""
	if !path.IsAbs(dst) {
		dst = path.Join(dir, dst)
	}
	p.dst = path.Clean(dst)
	p.prefix = path.Clean(src)
	// What a pattern matches the client knows: the archive has nothing else. Names begin
	// where the pattern does.
	for i, part := range strings.Split(p.prefix, "/") {
		if strings.ContainsAny(part, "*?[{!(") {
			p.into = true
			p.prefix = path.Join(strings.Split(p.prefix, "/")[:i]...)
			break
		}
	}
	if p.prefix == "." {
		p.prefix = ""
	}
	if mode != "" {
		if p.mode, err = strconv.ParseInt(mode, 8, 32); err != nil || p.mode < 0 || p.mode > 0o777 {
			return p, corral.Errorf(corral.ErrInvalid, "write it in octal, like 0644", "%.20q are no permissions", mode)
		}
	}
	return p, nil
}

// below is the name of a file below the prefix; ok is false if it is not there.
func (p placement) below(name string) (rest string, ok bool) {
	name = path.Clean(name)
	if p.prefix == "" {
		return name, true
	}
	if name == p.prefix {
		return ".", true
	}
	return strings.CutPrefix(name, p.prefix+"/")
}

// place puts the files of an archive, which may be compressed, where they belong.
func (p placement) place(ctx context.Context, f files.FS, archive io.Reader) error {
	in := bufio.NewReader(archive)
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return corral.Errorf(corral.ErrInvalid, "", "the archive is damaged: %w", err)
		}
		in = bufio.NewReader(z)
	}
	tr := tar.NewReader(in)
	h, rest, err := p.next(tr)
	if errors.Is(err, io.EOF) {
		return corral.Errorf(corral.ErrInvalid, "see that they are not ignored", "there are no files to copy")
	}
	if err != nil {
		return err
	}
	dir, name := p.dst, "" // name is what a single file is called
	if rest == "." && h.Typeflag != tar.TypeDir {
		if name = path.Base(p.prefix); !p.into {
			if i, err := f.Stat(ctx, p.dst); err != nil || i.Type != files.TypeDir {
				dir, name = path.Dir(p.dst), path.Base(p.dst)
			}
		}
	}
	if err := f.Mkdir(ctx, dir, files.MkdirOptions{Parents: true}); err != nil {
		return err
	}
	pr, pw := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		pw.CloseWithError(p.rename(tar.NewWriter(pw), tr, h, rest, name))
	}()
	_, err = f.Upload(ctx, dir, pr, files.Limits{})
	pr.CloseWithError(io.ErrClosedPipe)
	<-done
	return err
}

// next is the next file of an archive that is below the prefix.
func (p placement) next(tr *tar.Reader) (h *tar.Header, rest string, err error) {
	for {
		h, err := tr.Next()
		if err != nil {
			return nil, "", err
		}
		if rest, ok := p.below(h.Name); ok {
			return h, rest, nil
		}
	}
}

// rename writes files, from h on, with names below the directory that they are put in.
func (p placement) rename(w *tar.Writer, tr *tar.Reader, h *tar.Header, rest, name string) (err error) {
	for ; err == nil; h, rest, err = p.next(tr) {
		if h.Name = rest; rest == "." && name != "" {
			h.Name = name
		}
		if h.Typeflag == tar.TypeLink {
			if target, ok := p.below(h.Linkname); ok {
				h.Linkname = target
			}
		}
		if p.mode != 0 && h.Typeflag == tar.TypeReg {
			h.Mode = p.mode
		}
		h.Format, h.PAXRecords = tar.FormatUnknown, nil // as the name needs it
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, tr); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return w.Close()
	}
	return err
}
