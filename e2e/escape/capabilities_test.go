//go:build e2e && linux

package escape_test

import (
	"os"
	"strconv"
	"strings"
)

// capabilities by number, as in linux/capability.h; the three of Linux 5.8 and
// later, which older engines do not know, are parts of others of these.
var capabilities = strings.Fields(`CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
	SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE
	AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ`)

// allowed are all capabilities that this machine has to give: one that was itself
// started with less cannot pass on more.
func allowed() []string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, bits, _ := strings.Cut(string(b), "CapBnd:")
	bits, _, _ = strings.Cut(strings.TrimSpace(bits), "\n")
	set, err := strconv.ParseUint(bits, 16, 64)
	if err != nil {
		return nil
	}
	var names []string
	for i, name := range capabilities {
		if set&(1<<i) != 0 {
			names = append(names, "CAP_"+name)
		}
	}
	return names
}
