//go:build verbs

package verbs

/*
#cgo LDFLAGS: -libverbs
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

// address has the data that a peer needs to connect to one queue pair.
struct address { uint32_t qpn, psn; uint16_t lid; uint8_t mtu; uint8_t gid[16]; };

struct done { uint64_t id; uint32_t status, length; };

static struct ibv_context *open_device(const char *name) {
	int n;
	struct ibv_device **all = ibv_get_device_list(&n);
	struct ibv_context *c = NULL;
	if (!all) return NULL;
	errno = ENODEV;
	for (int i = 0; i < n && !c; i++)
		if (!*name || !strcmp(ibv_get_device_name(all[i]), name)) c = ibv_open_device(all[i]);
	ibv_free_device_list(all);
	return c;
}

// find_gid chooses an index: the IPv4 address of RoCE v2, or else the first address.
static int find_gid(struct ibv_context *c) {
	static const uint8_t mapped[12] = {0,0,0,0,0,0,0,0,0,0,0xff,0xff};
	struct ibv_gid_entry e;
	for (int i = 0; i < 256; i++)
		if (!ibv_query_gid_ex(c, 1, i, &e, 0) && e.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(e.gid.raw, mapped, 12)) return i;
	return 0;
}

static int query_port(struct ibv_context *c, int gid, struct address *a) {
	struct ibv_port_attr p;
	union ibv_gid g;
	int r = ibv_query_port(c, 1, &p);
	if (r) return r;
	if (ibv_query_gid(c, 1, gid, &g)) return errno ? errno : EINVAL;
	a->lid = p.lid; a->mtu = p.active_mtu;
	memcpy(a->gid, g.raw, 16);
	return 0;
}

// queue_depth is the size of a completion queue that the device can make, at most n.
static int queue_depth(struct ibv_context *c, int n) {
	struct ibv_device_attr a;
	if (ibv_query_device(c, &a)) return 0;
	return a.max_cqe < n ? a.max_cqe : n;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, int sends, int receives) {
	struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1 } };
	return ibv_create_qp(pd, &a);
}

static int set_state(struct ibv_qp *qp, int state) {
	struct ibv_qp_attr a = { .qp_state = state };
	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

static int set_access(struct ibv_qp *qp, int access) {
	struct ibv_qp_attr a = { .qp_access_flags = access };
	return ibv_modify_qp(qp, &a, IBV_QP_ACCESS_FLAGS);
}

static int to_init(struct ibv_qp *qp, int access) {
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_ready(struct ibv_qp *qp, struct address *own, struct address *peer, int gid, int timeout) {
	struct ibv_qp_attr a;
	int r;
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR; a.path_mtu = own->mtu < peer->mtu ? own->mtu : peer->mtu;
	a.dest_qp_num = peer->qpn; a.rq_psn = peer->psn; a.max_dest_rd_atomic = 4; a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1; a.ah_attr.dlid = peer->lid; a.ah_attr.port_num = 1;
	memcpy(a.ah_attr.grh.dgid.raw, peer->gid, 16);
	a.ah_attr.grh.sgid_index = gid; a.ah_attr.grh.hop_limit = 64;
	if ((r = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))) return r;
	memset(&a, 0, sizeof a);
	// soft-RoCE repeats without end if retry_cnt is 7.
	a.qp_state = IBV_QPS_RTS; a.timeout = timeout; a.retry_cnt = 6; a.rnr_retry = 7; a.sq_psn = own->psn; a.max_rd_atomic = 4;
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		IBV_QP_MAX_QP_RD_ATOMIC);
}

static int post_send(struct ibv_qp *qp, int opcode, uint64_t id, uint64_t local, uint32_t length, uint32_t lkey,
		uint64_t remote, uint32_t rkey) {
	struct ibv_sge s = { local, length, lkey };
	struct ibv_send_wr w, *bad;
	memset(&w, 0, sizeof w);
	w.wr_id = id; w.sg_list = &s; w.num_sge = length ? 1 : 0; w.opcode = opcode; w.send_flags = IBV_SEND_SIGNALED;
	w.wr.rdma.remote_addr = remote; w.wr.rdma.rkey = rkey;
	return ibv_post_send(qp, &w, &bad);
}

static int post_receive(struct ibv_qp *qp, uint64_t id, uint64_t local, uint32_t length, uint32_t lkey) {
	struct ibv_sge s = { local, length, lkey };
	struct ibv_recv_wr w = { .wr_id = id, .sg_list = &s, .num_sge = 1 }, *bad;
	return ibv_post_recv(qp, &w, &bad);
}

static int poll_done(struct ibv_cq *cq, int n, struct done *into) {
	struct ibv_wc wc[32];
	int got = ibv_poll_cq(cq, n > 32 ? 32 : n, wc);
	for (int i = 0; i < got; i++) {
		into[i].id = wc[i].wr_id; into[i].status = wc[i].status; into[i].length = wc[i].byte_len;
	}
	return got;
}

static int notify(struct ibv_cq *cq) { return ibv_req_notify_cq(cq, 0); }

// next_event reads one event. It returns 0, or an errno.
static int next_event(struct ibv_comp_channel *ch) {
	struct ibv_cq *cq;
	void *context;
	if (ibv_get_cq_event(ch, &cq, &context)) return errno ? errno : EIO;
	ibv_ack_cq_events(cq, 1);
	return 0;
}

static int nonblocking(int fd) { int f = fcntl(fd, F_GETFL); return f < 0 || fcntl(fd, F_SETFL, f | O_NONBLOCK) < 0 ? errno : 0; }
static uint64_t number(void *p) { return (uintptr_t)p; }
*/
import "C"

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// device is an open device with one completion queue.
type device struct {
	context *C.struct_ibv_context
	channel *C.struct_ibv_comp_channel
	cq      *C.struct_ibv_cq
	gid     C.int
	timeout C.int
	port    C.struct_address // without qpn and psn
	room    atomic.Int64     // of the completion queue, for more queue pairs
}

// queueDepth is the largest size of the completion queue.
const queueDepth = 1 << 17

func failed(what string, code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("verbs: %s: %w", what, syscall.Errno(code))
}

// orErrno returns the error of a C function that has returned NULL: err is its errno, or nil.
func orErrno(what string, err error) error {
	if err == nil {
		err = syscall.EIO
	}
	return fmt.Errorf("verbs: %s: %w", what, err)
}

func openDevice(cfg *Config) (_ *device, err error) {
	name := C.CString(cfg.Device)
	defer C.free(unsafe.Pointer(name))
	d := &device{timeout: exponent(cfg.Timeout)}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.context, err = C.open_device(name); d.context == nil {
		return nil, orErrno(fmt.Sprintf("open device %q: is the RDMA driver loaded (rdma link)?", cfg.Device), err)
	}
	if d.gid = C.int(cfg.GIDIndex); cfg.GIDIndex == 0 {
		d.gid = C.find_gid(d.context)
	}
	if err = failed("query port 1", C.query_port(d.context, d.gid, &d.port)); err != nil {
		return nil, err
	}
	if d.channel, err = C.ibv_create_comp_channel(d.context); d.channel == nil {
		return nil, orErrno("create completion channel", err)
	}
	if err = failed("completion channel", C.nonblocking(d.channel.fd)); err != nil {
		return nil, err
	}
	if err = failed("events of the device", C.nonblocking(d.context.async_fd)); err != nil {
		return nil, err
	}
	depth := C.queue_depth(d.context, queueDepth)
	d.room.Store(int64(depth))
	if d.cq, err = C.ibv_create_cq(d.context, depth, nil, d.channel, 0); d.cq == nil {
		return nil, orErrno("create completion queue", err)
	}
	return d, nil
}

// exponent encodes the time-out of a queue pair: it returns the largest n for which 4.096 us << n fits seven
// times into timeout, for one attempt and six repetitions.
func exponent(timeout time.Duration) C.int {
	n := 1
	for n < 31 && 7*(4096*time.Nanosecond<<(n+1)) <= timeout {
		n++
	}
	return C.int(n)
}

// close closes the parts of the device that were opened. The caller has closed all queue pairs and memory.
func (d *device) close() {
	if d.cq != nil {
		C.ibv_destroy_cq(d.cq)
	}
	if d.channel != nil {
		C.ibv_destroy_comp_channel(d.channel)
	}
	if d.context != nil {
		C.ibv_close_device(d.context)
	}
}

// memory is registered memory.
type memory struct {
	pd    *C.struct_ibv_pd
	mr    *C.struct_ibv_mr
	bytes []byte
	apart bool // the memory has a protection domain of its own
}

// register allocates and registers memory. The memory is in the protection domain of beside, or in a new one
// if beside is nil. remote permits operations of peers, as far as the access flags of their queue pairs do.
func (d *device) register(size int, remote bool, beside *memory) (_ *memory, err error) {
	m := &memory{}
	defer func() {
		if err != nil {
			m.close()
			m.unmap()
		}
	}()
	m.bytes, err = syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("verbs: memory of %d bytes: %w", size, err)
	}
	// After a fork, copy-on-write could give this process new pages while the device still writes to the old
	// pages.
	if err = syscall.Madvise(m.bytes, syscall.MADV_DONTFORK); err != nil {
		return nil, fmt.Errorf("verbs: memory of %d bytes: %w", size, err)
	}
	if beside != nil {
		m.pd = beside.pd
	} else if m.pd, err = C.ibv_alloc_pd(d.context); m.pd == nil {
		return nil, orErrno("protection domain", err)
	}
	m.apart = beside == nil
	flags := C.int(C.IBV_ACCESS_LOCAL_WRITE)
	if remote {
		flags |= accessWrite | accessRead
	}
	if m.mr, err = C.ibv_reg_mr(m.pd, unsafe.Pointer(&m.bytes[0]), C.size_t(size), flags); m.mr == nil {
		return nil, orErrno(fmt.Sprintf("register %d bytes (ulimit -l?)", size), err)
	}
	return m, nil
}

func (m *memory) at(offset int) C.uint64_t {
	return C.number(unsafe.Pointer(&m.bytes[0])) + C.uint64_t(offset)
}

func (m *memory) key() uint32 { return uint32(m.mr.rkey) }

// close ends the registration. If the memory owns its protection domain, the caller has closed the other
// memory and the queue pairs of this domain.
func (m *memory) close() {
	if m.mr != nil {
		C.ibv_dereg_mr(m.mr)
	}
	if m.pd != nil && m.apart {
		C.ibv_dealloc_pd(m.pd)
	}
	m.mr, m.pd = nil, nil
}

// unmap unmaps the bytes. Nothing may use them afterwards.
func (m *memory) unmap() {
	if m.bytes != nil {
		_ = syscall.Munmap(m.bytes) // cannot fail: the bytes are mapped
	}
	m.bytes = nil
}

// pair is a queue pair.
type pair struct {
	device *device
	qp     *C.struct_ibv_qp
	memory *memory
}

// newPair creates a queue pair. It fails if the completion queue has no room for all work requests of all
// queue pairs, because an overflow would break all of them.
func (d *device) newPair(m *memory, sends, receives int) (*pair, error) {
	if n := int64(sends + receives); d.room.Add(-n) < 0 {
		d.room.Add(n)
		return nil, errors.New("verbs: the completion queue has no room for another queue pair: use fewer regions or peers")
	}
	qp, err := C.create_qp(m.pd, d.cq, C.int(sends), C.int(receives))
	if qp == nil {
		return nil, orErrno("create queue pair", err)
	}
	return &pair{device: d, qp: qp, memory: m}, nil
}

// address returns the address of the pair. psn is the number of the first packet that the pair sends.
func (p *pair) address(psn uint32) C.struct_address {
	a := p.device.port
	a.qpn, a.psn = p.qp.qp_num, C.uint32_t(psn)
	return a
}

// reset drops all operations that are under way. None of them is executed afterwards.
func (p *pair) reset() error { return failed("reset a queue pair", C.set_state(p.qp, C.IBV_QPS_RESET)) }

// fail moves the pair into the error state: all operations that are under way end with an error.
func (p *pair) fail() error { return failed("end a queue pair", C.set_state(p.qp, C.IBV_QPS_ERR)) }

// init sets up a pair that was reset. soft-RoCE can report an error shortly before it moves the pair into the
// error state. If the reset comes between, the pair is in the error state after it, and needs another reset.
func (p *pair) init(access C.int) error {
	if C.to_init(p.qp, access) == 0 {
		return nil
	}
	if err := p.reset(); err != nil {
		return err
	}
	return failed("set up a queue pair", C.to_init(p.qp, access))
}

func (p *pair) ready(own, peer *C.struct_address) error {
	return failed("connect a queue pair", C.to_ready(p.qp, own, peer, p.device.gid, p.device.timeout))
}

func (p *pair) setAccess(access C.int) error {
	return failed("change the access flags of a queue pair", C.set_access(p.qp, access))
}

// send posts a work request. The bytes are in the memory of the pair.
func (p *pair) send(opcode C.int, id uint64, offset, length int, remote uint64, key uint32) error {
	return failed("post a work request", C.post_send(p.qp, opcode, C.uint64_t(id), p.memory.at(offset), C.uint32_t(length), p.memory.mr.lkey,
		C.uint64_t(remote), C.uint32_t(key)))
}

// receive posts a buffer for a message, in the memory of the pair.
func (p *pair) receive(id uint64, offset, length int) error {
	return failed("post a buffer", C.post_receive(p.qp, C.uint64_t(id), p.memory.at(offset), C.uint32_t(length), p.memory.mr.lkey))
}

func (p *pair) close() { C.ibv_destroy_qp(p.qp) }

// done is the result of a work request.
type done struct {
	id     uint64
	status uint32
	length int
}

// poll reads results of work requests, and returns their number.
func (d *device) poll(into []done) int {
	var buffer [32]C.struct_done
	n := int(C.poll_done(d.cq, C.int(min(len(into), len(buffer))), &buffer[0]))
	for i := range max(n, 0) {
		b := &buffer[i]
		into[i] = done{id: uint64(b.id), status: uint32(b.status), length: int(b.length)}
	}
	return max(n, 0)
}

// notify requests an event at the end of the next work request.
func (d *device) notify() error { return failed("ask for events", C.notify(d.cq)) }

// nextEvent reads an event without waiting, and reports whether there was one.
func (d *device) nextEvent() (bool, error) {
	switch code := C.next_event(d.channel); {
	case code == 0:
		return true, nil
	case errors.Is(syscall.Errno(code), syscall.EAGAIN):
		return false, nil
	default:
		return false, failed("take an event", code)
	}
}

// The statuses of work requests that this package distinguishes, and its opcodes and access flags.
const (
	succeeded         = uint32(C.IBV_WC_SUCCESS)
	flushed           = uint32(C.IBV_WC_WR_FLUSH_ERR)
	remoteAccessError = uint32(C.IBV_WC_REM_ACCESS_ERR)
	remoteRefusal     = uint32(C.IBV_WC_REM_INV_REQ_ERR)
	remoteFailure     = uint32(C.IBV_WC_REM_OP_ERR)

	opWrite = C.int(C.IBV_WR_RDMA_WRITE)
	opRead  = C.int(C.IBV_WR_RDMA_READ)
	opSend  = C.int(C.IBV_WR_SEND)

	accessWrite = C.int(C.IBV_ACCESS_REMOTE_WRITE)
	accessRead  = C.int(C.IBV_ACCESS_REMOTE_READ)
)

// flagsOf returns the access flags of a queue pair for the rights of its peer.
func flagsOf(rights fabric.Rights) C.int {
	flags := C.int(C.IBV_ACCESS_LOCAL_WRITE)
	if rights&fabric.Writable != 0 {
		flags |= accessWrite
	}
	if rights&fabric.Readable != 0 {
		flags |= accessRead
	}
	return flags
}

// encodeAddress appends the bytes of an address.
func encodeAddress(b []byte, a *C.struct_address) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(a.qpn))
	b = binary.LittleEndian.AppendUint32(b, uint32(a.psn))
	b = binary.LittleEndian.AppendUint16(b, uint16(a.lid))
	b = append(b, byte(a.mtu))
	return append(b, C.GoBytes(unsafe.Pointer(&a.gid[0]), 16)...)
}

// decodeAddress reads an address.
func decodeAddress(b []byte) (a C.struct_address) {
	a.qpn, a.psn = C.uint32_t(binary.LittleEndian.Uint32(b)), C.uint32_t(binary.LittleEndian.Uint32(b[4:]))
	a.lid, a.mtu = C.uint16_t(binary.LittleEndian.Uint16(b[8:])), C.uint8_t(b[10])
	for i := range a.gid {
		a.gid[i] = C.uint8_t(b[11+i])
	}
	return a
}

const addressSize = 4 + 4 + 2 + 1 + 16

type (
	address = C.struct_address
	opcode  = C.int
)
