package files

import (
	"bytes"
	"context"
	"io"

	"github.com/corral-exec/corral"
)

// MaxReadFile is the most that ReadFile reads, in bytes. What is in a sandbox is
// hostile, and a file can have any size.
const MaxReadFile = 64 << 20

// ReadFile returns a regular file's content. One that is larger than MaxReadFile
// is ErrInvalid: read it with FS.Read.
func ReadFile(ctx context.Context, f FS, name string) ([]byte, error) {
	var b bytes.Buffer
	err := f.Read(ctx, name, ReadOptions{Limit: MaxReadFile + 1}, func(i Info) (io.Writer, error) {
		if i.Size > MaxReadFile {
			return nil, tooLarge(name)
		}
		return &b, nil
	})
	if err != nil {
		return nil, err
	}
	if b.Len() > MaxReadFile { // it has grown, or lied about its size
		return nil, tooLarge(name)
	}
	return b.Bytes(), nil
}

// all is what is left of a file.
func all(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxReadFile+1))
	if len(data) > MaxReadFile {
		err = tooLarge(name)
	}
	return data, err
}

func tooLarge(name string) error {
	return corral.Errorf(corral.ErrInvalid, "read it in parts, with FS.Read", "%s has more than %d bytes", name, MaxReadFile)
}

// WriteFile makes a regular file with that content, in the place of the one that
// has the name, and the directories that the path lacks. The file keeps the mode
// that it had; a new one gets 0644.
func WriteFile(ctx context.Context, f FS, name string, data []byte) error {
	_, err := f.Write(ctx, name, bytes.NewReader(data), WriteOptions{Parents: true, Limit: max(int64(len(data)), 1)})
	return err
}
