//go:build verbs

package verbs

/*
#include <errno.h>
#include <infiniband/verbs.h>

// next_async reads one event of the device. It returns 0, or an errno.
static int next_async(struct ibv_context *c, int *type) {
	struct ibv_async_event e;
	if (ibv_get_async_event(c, &e)) return errno ? errno : EIO;
	*type = e.event_type;
	ibv_ack_async_event(&e);
	return 0;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
)

// nextFailure reads the events of the device without waiting. It returns the first fatal event as an error.
// Errors of single queue pairs are no fatal events: the results of work requests report them.
func (d *device) nextFailure() error {
	for {
		var kind C.int
		switch code := C.next_async(d.context, &kind); {
		case errors.Is(syscall.Errno(code), syscall.EAGAIN):
			return nil
		case code != 0:
			return failed("take an event of the device", code)
		case kind == C.IBV_EVENT_DEVICE_FATAL || kind == C.IBV_EVENT_CQ_ERR:
			return fmt.Errorf("%w: %s", errDevice, C.GoString(C.ibv_event_type_str(uint32(kind))))
		}
	}
}

// errDevice is the error of all operations after a failure of the device.
var errDevice = errors.New("verbs: the RDMA device has failed, or was removed")

// watch waits for a failure of the device until the endpoint is closed. After a failure all operations are
// lost, and Post returns the reason.
func (e *endpoint) watch() {
	raw, err := e.failures.SyscallConn()
	if err != nil {
		return
	}
	var failure error
	if raw.Read(func(uintptr) bool {
		failure = e.device.nextFailure()
		return failure != nil
	}) == nil {
		e.fail(failure)
	}
}

// fail records the failure of the device, and ends all operations as lost.
func (e *endpoint) fail(failure error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failure = failure
	for _, q := range e.queues {
		q.lose()
	}
	e.signal()
}
