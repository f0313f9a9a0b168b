package node

import (
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/damagetest"
)

// Whatever bit of a node's files is another, and wherever they are cut: the node is who
// it was, or it does not start and says which file is damaged.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, nil)
	must(t, err)
	must(t, s.Use(newLine(t, "gw:1").String(), false))
	s.to.Name, s.to.PairedAt = "builder", now()
	must(t, s.save())
	must(t, s.Close())
	type identity struct {
		key string
		to  gateway
	}
	opened := func() (identity, error) {
		s, err := Open(dir, nil)
		if err != nil {
			return identity{}, err
		}
		return identity{s.Key(), s.to}, s.Close()
	}
	for _, name := range []string{keyFile, gatewayFile} {
		t.Run(name, func(t *testing.T) {
			damagetest.File(t, filepath.Join(dir, name), name, func(a, b identity) bool { return a == b }, opened)
		})
	}
	t.Run(recordFile, func(t *testing.T) {
		path := filepath.Join(dir, recordFile)
		must(t, writeJSON(path, Record{PID: 7, Version: "v1", StartedAt: now()}, false))
		damagetest.File(t, path, recordFile, func(a, b *Record) bool { return a != nil && *a == *b },
			func() (*Record, error) { return readRecord(dir) })
	})
}
