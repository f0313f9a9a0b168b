package cli

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/damagetest"
)

func TestGatewayRecordDamaged(t *testing.T) {
	dir := t.TempDir()
	r := gatewayRecord{PID: 7, Version: "v1", StartedAt: time.Now().UTC(), Socket: "/s", Listen: []string{"127.0.0.1:1"}, Sandbox: modeAll, Image: "debian:12"}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	damagetest.File(t, filepath.Join(dir, recordFile), recordFile, func(a, b *gatewayRecord) bool { return reflect.DeepEqual(a, b) },
		func() (*gatewayRecord, error) { return readRecord(dir) })
}
