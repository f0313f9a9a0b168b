//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/sandbox/engine"
)

// A machine is where something was measured: figures mean little without.
type machine struct {
	Kernel  string `json:"kernel"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	CPU     string `json:"cpu,omitempty"`
	Go      string `json:"go"`
	Engine  string `json:"engine"`
	Image   string `json:"image"`
	LoadAvg string `json:"loadavg"` // before the first measurement
}

func describe(ctx context.Context, engine engine.Engine, image string) (machine, error) {
	m := machine{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), Image: image, CPU: cpuModel()}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return m, fmt.Errorf("cannot tell which kernel this is: %w", err)
	}
	m.Kernel = unix.ByteSliceToString(u.Release[:])
	info, err := engine.Info(ctx)
	if err != nil {
		return m, err
	}
	m.Engine = info.Name + " " + info.Version
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return m, err
	}
	m.LoadAvg = strings.Join(strings.Fields(string(load))[:3], " ")
	return m, nil
}

// cpuModel is empty where the kernel does not say.
func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(b), "model name")
	if !ok {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, ": \t")
}

func (m machine) String() string {
	return fmt.Sprintf("%d × %s, Linux %s %s, load %s; %s, image %s; %s", m.CPUs, m.CPU, m.Kernel, m.Arch, m.LoadAvg, m.Engine, m.Image, m.Go)
}
