package main

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
	"unsafe"

	decimal "github.com/geseq/udecimal"
)

const (
	kindNew = iota
	kindCancel
	kindReplace
	kindNewImmediateOrCancel
)

// An operation in the engine's words, which it is put into before the clock starts.
type operation struct {
	orderID  uint64
	price    decimal.Decimal
	quantity decimal.Decimal
	symbol   uint16
	kind     uint8
	buys     bool
}

type flow struct {
	prefill    int
	symbols    int
	operations []operation
}

func (f *flow) measured() []operation {
	return f.operations[f.prefill:]
}

// A flow in its form on disk: a header of 64 bytes, then 32 bytes an operation, little-endian.
func readFlow(path string) (*flow, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	little := binary.LittleEndian
	if len(bytes) < 64 || string(bytes[:4]) != "WLF1" || little.Uint32(bytes[4:]) != 1 {
		return nil, errors.New("no flow of version 1")
	}
	prefill, measured := little.Uint64(bytes[8:]), little.Uint64(bytes[16:])
	records := bytes[64:]
	if uint64(len(records)) != 32*(prefill+measured) {
		return nil, errors.New("not as long as its header says")
	}
	result := &flow{prefill: int(prefill), symbols: int(little.Uint32(bytes[24:]))}
	for ; len(records) > 0; records = records[32:] {
		kind := records[26]
		if kind > kindNewImmediateOrCancel {
			return nil, errors.New("an operation that is none")
		}
		result.operations = append(result.operations, operation{
			orderID:  little.Uint64(records),
			price:    decimal.New(little.Uint64(records[8:]), 0),
			quantity: decimal.New(uint64(little.Uint32(records[16:])), 0),
			symbol:   little.Uint16(records[24:]),
			kind:     kind,
			buys:     records[27] == 0,
		})
	}
	return result, nil
}

// The CPU time of this thread, in nanoseconds.
func threadCPU() int64 {
	const clockThreadCPUTime = 3
	var at syscall.Timespec
	_, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPUTime, uintptr(unsafe.Pointer(&at)), 0)
	if failure != 0 {
		panic("the system has no clock for the CPU time of a thread: " + failure.Error())
	}
	return at.Nano()
}
