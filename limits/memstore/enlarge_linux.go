package memstore

import (
	"syscall"
	"unsafe"
)

// enlarge asks for the slots of a large table to be kept in large pages of memory, with what else lies in those: to find out
// where one of a million small ones is takes half as long as to fetch what is there. It is advice, so an error tells nothing
// that anybody could act on.
func enlarge(slots []entry) {
	const least, large = 64 << 10, 2 << 20
	size := uintptr(len(slots)) * unsafe.Sizeof(entry{})
	if size < least {
		return // it is soon outgrown
	}
	from := uintptr(unsafe.Pointer(&slots[0]))
	to := (from + size + large - 1) &^ (large - 1)
	from &^= large - 1
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_HUGEPAGE)
}
