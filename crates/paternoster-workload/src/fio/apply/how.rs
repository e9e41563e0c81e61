// SPDX-License-Identifier: MIT OR Apache-2.0
//! How: options of the engine, the depth, syncs, verification and replay.
//!
//! Source: FIO-21, FIO-52 to FIO-58, FIO-70, FIO-71.

use crate::fio::job::{Engine, Job, SubmitMode};
use crate::fio::value::{self, Reader};

/// The deepest queue.
const DEPTH_MAX: u64 = 1 << 16;

/// Options of the cache, the engine and the depth.
pub(super) fn how(
    job: &mut Job,
    name: &str,
    text: &str,
    read: &mut Reader<'_>,
) -> Result<bool, String> {
    match name {
        "direct" => job.cache.direct = Some(value::boolean(text)?),
        "buffered" => job.cache.direct = Some(!value::boolean(text)?),
        "ioengine" => {
            job.queue.engine = engine(text)?;
            text.clone_into(&mut job.queue.engine_name);
        }
        "iodepth" => job.queue.iodepth = read.small(text, 1, DEPTH_MAX)?,
        "iodepth_low" => job.queue.iodepth_low = read.small(text, 0, DEPTH_MAX)?,
        "iodepth_batch_submit" => {
            job.queue.iodepth_batch_submit = read.small(text, 0, DEPTH_MAX)?;
        }
        "iodepth_batch_complete_min" => {
            job.queue.iodepth_batch_complete_min = read.small(text, 0, DEPTH_MAX)?;
        }
        "iodepth_batch_complete_max" => {
            job.queue.iodepth_batch_complete_max = read.small(text, 0, DEPTH_MAX)?;
        }
        "io_submit_mode" => {
            job.queue.submit_mode = match text {
                "inline" => SubmitMode::Inline,
                "offload" => SubmitMode::Offload,
                _ => return Err(format!("`{text}` is neither inline nor offload")),
            }
        }
        "serialize_overlap" => job.queue.serialize_overlap = value::boolean(text)?,
        "profile" => job.profile = Some(profile(text)?),
        _ => {
            return Ok(job.syncs.set(name, text, read)?
                || job.queue.cpu_load.set(name, text, read)?
                || job.verify.set(name, text, read)?
                || job.replay.set(name, text, read)?);
        }
    }
    Ok(true)
}

fn engine(text: &str) -> Result<Engine, String> {
    match text {
        // mmap and splice are buffered and blocking, which is all that a simulation sees of them.
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" | "mmap" | "splice" => Ok(Engine::Sync),
        "libaio" | "io_uring" | "posixaio" | "windowsaio" | "solarisaio" => Ok(Engine::Async),
        "null" | "cpp_null" => Ok(Engine::Null),
        "cpuio" => Ok(Engine::Cpu),
        "filecreate" | "filestat" | "filedelete" => Err(format!(
            "engine `{text}` works on the names of files, not on their data: \
             a block layer sees nothing of it, so it is out of scope"
        )),
        "falloc" | "ftruncate" | "e4defrag" => Err(format!(
            "engine `{text}` works on how a filesystem lays out files: \
             there is no filesystem here, so it is out of scope"
        )),
        "exec" => Err("engine `exec` runs programs, which is out of scope".to_owned()),
        "sg" | "io_uring_cmd" | "xnvme" => Err(format!(
            "engine `{text}` sends commands past the block layer: use libaio or io_uring"
        )),
        "libzbc" => {
            Err("engine `libzbc` drives zoned devices, and no device model is zoned: use libaio"
                .to_owned())
        }
        "external"
        | "net"
        | "netsplice"
        | "rdma"
        | "rbd"
        | "rados"
        | "http"
        | "nfs"
        | "dfs"
        | "ime_psync"
        | "ime_psyncv"
        | "ime_aio"
        | "libhdfs"
        | "gfapi"
        | "gfapi_async"
        | "libiscsi"
        | "nbd"
        | "mtd"
        | "dev-dax"
        | "libpmem"
        | "pmemblk"
        | "libcufile"
        | "librpma_apm_client"
        | "librpma_apm_server"
        | "librpma_gpspm_client"
        | "librpma_gpspm_server"
        | "libblkio" => {
            Err(format!("engine `{text}` does not drive a local disk: use psync or libaio"))
        }
        _ => Err(format!(
            "unknown engine `{text}`: use sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, \
             posixaio or null"
        )),
    }
}

/// fio's built-in workloads.
fn profile(text: &str) -> Result<String, String> {
    match text {
        "tiobench" | "act" => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is no profile: fio has tiobench and act")),
    }
}
