package containerd

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestShimEnded(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("ttrpc: closed"), true},
		{native(status.Error(codes.Unknown, "failed to delete task: ttrpc: closed")), true},
		{fmt.Errorf("failed to delete task: %w", errors.New("device or resource busy")), false},
	} {
		if got := shimEnded(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
