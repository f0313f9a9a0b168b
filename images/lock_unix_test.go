//go:build unix

package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestLock(t *testing.T) {
	dir := t.TempDir()
	var inside atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := lock(t.Context(), dir, func() {})
			if err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two have the lock")
			}
			inside.Add(-1)
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestLockGivesUp(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(t.Context(), dir, func() { t.Error("nobody to wait for") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, dir, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

func TestLockIsNoLink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "corral-images-"+strconv.Itoa(os.Geteuid())+".lock")
	if err := os.Symlink("elsewhere", path); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(t.Context(), dir, func() {}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}
