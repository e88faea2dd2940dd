//! What the front-end asks for: features, memory, and where the queues lie. Nothing here waits for the guest, but a
//! change to a running queue waits until the requests that were taken from it are given back.

use super::config::{CONFIG_LEN, feature};
use super::disk::Disk;
use super::memory::Table;
use super::ring::{Ring, Start};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_queue::{Queue, QueueT};

/// The longest queue that virtio front-ends make.
const MAX_QUEUE: u16 = 1024;

/// The front-end's requests in a conversation, and the queues that it has set up.
pub(super) struct FrontEnd {
    disk: Arc<Disk>,
    /// Features that the guest and the front-end have taken.
    features: u64,
    table: Table,
    queues: Vec<Slot>,
    workers: usize,
}

/// What is known of a queue.
#[derive(Default)]
struct Slot {
    len: u16,
    addresses: Option<Addresses>,
    /// Index of the next chain.
    base: u16,
    kick: Option<Arc<OwnedFd>>,
    call: Arc<Mutex<Option<OwnedFd>>>,
    error: Option<Arc<OwnedFd>>,
    enabled: bool,
    ring: Option<Ring>,
}

/// In the front-end's address space.
#[derive(Clone, Copy)]
struct Addresses {
    descriptors: u64,
    available: u64,
    used: u64,
}

impl FrontEnd {
    pub fn new(disk: Arc<Disk>, queues: u16, workers: usize) -> Self {
        let queues = (0..queues).map(|_| Slot { len: MAX_QUEUE, ..Slot::default() }).collect();
        Self { disk, features: 0, table: Table::default(), queues, workers }
    }

    fn slot(&mut self, index: u32) -> Result<&mut Slot> {
        self.queues.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    /// Changes a queue, which stands still meanwhile.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Slot)) -> Result<()> {
        let slot = self.slot(index)?;
        slot.stop();
        change(slot);
        self.start(index as usize)
    }

    /// Changes what all queues depend on.
    fn change_all(&mut self, change: impl FnOnce(&mut Self)) -> Result<()> {
        self.queues.iter_mut().for_each(Slot::stop);
        change(self);
        (0..self.queues.len()).try_for_each(|index| self.start(index))
    }

    /// Starts a queue if everything is there that it needs.
    fn start(&mut self, index: usize) -> Result<()> {
        let Some(slot) = self.queues.get_mut(index) else { return Err(Error::InvalidParam) };
        let (true, Some(addresses), Some(kick)) = (slot.enabled, slot.addresses, &slot.kick) else {
            return Ok(());
        };
        let place = |address| self.table.guest_address(address).ok_or(Error::InvalidParam);
        let memory = self.table.memory.clone();
        let mut queue = Queue::new(MAX_QUEUE).map_err(refused)?;
        queue.try_set_size(slot.len).map_err(refused)?;
        queue.try_set_desc_table_address(place(addresses.descriptors)?).map_err(refused)?;
        queue.try_set_avail_ring_address(place(addresses.available)?).map_err(refused)?;
        queue.try_set_used_ring_address(place(addresses.used)?).map_err(refused)?;
        queue.set_event_idx(self.features & feature::RING_EVENT_IDX != 0);
        queue.set_ready(true);
        if !queue.is_valid(&*memory) {
            return Err(Error::InvalidParam);
        }
        queue.set_next_avail(slot.base);
        let used = queue.used_idx(&*memory, std::sync::atomic::Ordering::Acquire).map_err(refused)?;
        queue.set_next_used(used.0);
        let start = Start {
            disk: self.disk.clone(),
            memory,
            queue,
            kick: kick.clone(),
            call: slot.call.clone(),
            error: slot.error.clone(),
            durable: self.features & feature::FLUSH == 0 && !self.disk.device.is_read_only(),
            workers: self.workers,
        };
        slot.ring = Some(Ring::start(start).map_err(Error::ReqHandlerError)?);
        Ok(())
    }
}

impl Slot {
    /// When this returns, no request of the queue is under way.
    fn stop(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.base = ring.stop();
        }
    }
}

fn refused(error: virtio_queue::Error) -> Error {
    Error::ReqHandlerError(io::Error::other(error))
}

/// Descriptors are the front-end's: one that would block must not hold up a thread of ours.
fn event(file: Option<File>) -> Result<Option<OwnedFd>> {
    let Some(file) = file else { return Ok(None) };
    let fd = OwnedFd::from(file);
    let nonblocking = fcntl_getfl(&fd).and_then(|flags| fcntl_setfl(&fd, flags | OFlags::NONBLOCK));
    nonblocking.map_err(|error| Error::ReqHandlerError(error.into()))?;
    Ok(Some(fd))
}

/// For requests of features that are not offered.
fn not_offered<T>() -> Result<T> {
    Err(Error::InvalidOperation("not offered"))
}

impl VhostUserBackendReqHandlerMut for FrontEnd {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.change_all(|all| {
            all.features = 0;
            for slot in &mut all.queues {
                *slot = Slot { len: MAX_QUEUE, ..Slot::default() };
            }
        })
    }

    fn reset_device(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.disk.features)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.disk.features != 0 {
            return Err(Error::InvalidParam);
        }
        self.change_all(|all| {
            all.features = features;
            // A front-end without protocol features enables no queue by itself.
            if features & feature::PROTOCOL_FEATURES == 0 {
                all.queues.iter_mut().for_each(|slot| slot.enabled = true);
            }
        })
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let table = Table::map(regions, files)?;
        self.change_all(|all| all.table = table)?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let len = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        if !len.is_power_of_two() || len > MAX_QUEUE {
            return Err(Error::InvalidParam);
        }
        self.change(index, |slot| slot.len = len)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.change(index, |slot| slot.addresses = Some(Addresses { descriptors, available, used }))
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.change(index, |slot| slot.base = base)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let slot = self.slot(index)?;
        slot.stop();
        // It starts again with the next kick descriptor.
        slot.kick = None;
        Ok(VhostUserVringState::new(index, slot.base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let Some(kick) = event(file)? else {
            return Err(Error::InvalidOperation("a queue without a kick descriptor would have to be polled"));
        };
        self.change(index.into(), |slot| slot.kick = Some(Arc::new(kick)))
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let call = event(file)?;
        // Front-ends change it often, and the queue goes on.
        *self.slot(index.into())?.call.lock().unwrap_or_else(PoisonError::into_inner) = call;
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let error = event(file)?.map(Arc::new);
        self.change(index.into(), |slot| slot.error = error)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.queues.len() as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.change(index, |slot| slot.enabled = enable)
    }

    fn get_config(&mut self, offset: u32, len: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        // Fields that are not offered read as zeros. No front-end asks for more than the protocol's 256 bytes.
        const SPACE: usize = 256;
        let mut space = [0; SPACE];
        space[..CONFIG_LEN].copy_from_slice(&self.disk.configuration());
        let (start, len) = (offset as usize, len as usize);
        let range = start.checked_add(len).and_then(|end| space.get(start..end));
        range.map(<[u8]>::to_vec).ok_or(Error::InvalidParam)
    }

    fn set_config(&mut self, _offset: u32, _config: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        // The only field that a guest may write comes with a feature that is not offered.
        not_offered()
    }

    fn set_gpu_socket(&mut self, _socket: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _uuid: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_inflight_fd(&mut self, _inflight: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        not_offered()
    }

    fn set_inflight_fd(&mut self, _inflight: &VhostUserInflight, _file: File) -> Result<()> {
        not_offered()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        not_offered()
    }

    fn add_mem_region(
        &mut self,
        _region: &VhostUserSingleMemoryRegion,
        _file: File,
        _postcopy_listening: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        not_offered()
    }

    fn remove_mem_region(&mut self, _region: &VhostUserSingleMemoryRegion) -> Result<()> {
        not_offered()
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        not_offered()
    }
}
