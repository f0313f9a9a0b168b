package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/corral-exec/corral/internal/state/atomicfile"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum is the CRC-32C of b, in hex.
func Sum(b []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)) }

const (
	sumBegin = `,"sum":"`
	sumSize  = len(sumBegin) + 8 + len(`"}`)
)

// Sign takes a line that ends with a JSON object that has members. It adds the checksum
// as the last member. The line end is not part of it.
func Sign(line []byte) []byte {
	body := bytes.TrimSuffix(line, []byte{'}'})
	return fmt.Appendf(slices.Clip(body), `%s%s"}`, sumBegin, Sum(body))
}

// ErrSum: the content does not match its checksum.
var ErrSum = errors.New("its checksum is another one")

// Check verifies the checksum of a line that Sign returned. A line without a checksum
// is not signed, and no error.
func Check(line []byte) (signed bool, err error) {
	at := len(line) - sumSize
	if at < 0 || !bytes.HasPrefix(line[at:], []byte(sumBegin)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return false, nil
	}
	if string(line[at+len(sumBegin):len(line)-2]) != Sum(line[:at]) {
		return true, ErrSum
	}
	return true, nil
}

// Decode reads a file that is one JSON object, perhaps with a line end. The object may
// lack the checksum of Sign, as in files of earlier versions.
func Decode(content []byte, v any) error {
	if _, err := Check(bytes.TrimSuffix(content, []byte{'\n'})); err != nil {
		return err
	}
	return json.Unmarshal(content, v)
}

// WriteFile replaces a file by v, a struct or a map with members, and a checksum: see Sign.
func WriteFile(path string, v any, o atomicfile.Options) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(Sign(line), '\n'), o)
}

// ReadFile reads a file that WriteFile wrote, of at most limit bytes. The error of one that
// does not exist is fs.ErrNotExist.
func ReadFile(path string, limit int64, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return err
	}
	if int64(len(content)) > limit {
		return fmt.Errorf("it has more than %d bytes", limit)
	}
	return Decode(content, v)
}

// sealed is a line that must have a checksum: its entry and the entry's CRC-32C.
type sealed struct {
	Sum   string          `json:"crc32c"`
	Entry json.RawMessage `json:"entry"`
}

// Seal returns a line, with its end, that holds v and a checksum.
func Seal(v any) ([]byte, error) {
	entry, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(sealed{Sum(entry), entry})
	return append(line, '\n'), err
}

// Unseal reads a line that Seal returned, with or without its end.
func Unseal(line []byte, v any) error {
	var s sealed
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	if s.Sum != Sum(s.Entry) {
		return ErrSum
	}
	return json.Unmarshal(s.Entry, v)
}
